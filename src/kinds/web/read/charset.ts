// Decodes bytes to text. Uses the byte order mark, then the HTTP header, then the meta tag, then UTF-8 if
// valid, and finally windows-1252 (the browser default for unlabelled western pages).
const sniffBytes = 4096;

interface DecodedText {
  text: string;
  charset: string;
}

export function decodeBytes(bytes: Uint8Array, contentType = ''): DecodedText {
  const marked = bomCharset(bytes);
  if (marked) return decodeAs(bytes, marked);
  const named = charsetOf(contentType);
  if (named !== undefined) return decodeAs(bytes, named);
  const head = decodeLatin1(bytes.subarray(0, sniffBytes));
  const declared = metaCharset(head);
  if (declared !== undefined) return decodeAs(bytes, declared);
  return isUtf8(bytes) ? decodeAs(bytes, 'utf-8') : decodeAs(bytes, 'windows-1252');
}

function charsetOf(contentType: string): string | undefined {
  const label = /charset\s*=\s*["']?\s*([^\s"';,>]+)/i.exec(contentType)?.[1];
  return label === undefined ? undefined : encodingName(label);
}

function bomCharset(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return undefined;
}

function metaCharset(head: string): string | undefined {
  const xml = /^\s*<\?xml[^>]*encoding\s*=\s*["']([^"']+)["']/i.exec(head)?.[1];
  const meta = /<meta[^>]+charset\s*=\s*["']?\s*([^\s"'/>;]+)/i.exec(head)?.[1];
  const label = xml ?? meta;
  if (label === undefined) return undefined;
  const charset = encodingName(label);
  // A page whose meta tag is readable as ASCII is not UTF-16, even when the tag claims so (HTML standard).
  return charset?.startsWith('utf-16') ? 'utf-8' : charset;
}

/** Returns the standard name of the encoding, or undefined for unknown labels. */
function encodingName(label: string): string | undefined {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    return undefined;
  }
}

function decodeAs(bytes: Uint8Array, charset: string): DecodedText {
  return { text: new TextDecoder(charset).decode(bytes), charset };
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function decodeLatin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
