// Makes output readable: removes terminal escape codes, collapses carriage-return rewrites to their last state, shortens
// long lines. Pure. Every line keeps its offset in the file.

/** A line, or the result of folding several. `at` and `end` are byte offsets in the log and never change. */
export interface Line {
  at: number;
  end: number;
  text: string;
  /** False for a last line without a newline, such as a prompt. */
  ended: boolean;
  /** For a line longer than a window: how many bytes of it are not in `text`. */
  hiddenBytes?: number;
}

// Order matters: strings (OSC, DCS, APC, PM, SOS) end with BEL or ST, then CSI, then two-byte escapes.
const escapes =
  // oxlint-disable-next-line no-control-regex -- control characters are the subject here
  /\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|\u001b[ -/]*[0-~]?/g;
// oxlint-disable-next-line no-control-regex -- see above; tab stays
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

// oxlint-disable-next-line no-control-regex -- see above
const anyControl = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

export function cleanText(text: string): string {
  if (!anyControl.test(text)) return text;
  let clean = text;
  if (clean.includes('\u001b') || clean.includes('\u009b')) clean = clean.replace(escapes, '');
  if (clean.includes('\r')) clean = lastRewrite(clean);
  if (clean.includes('\b')) clean = applyBackspaces(clean);
  return clean.replace(controls, '');
}

/** `10 %\r20 %\r30 %` is one line that changed. The last non-empty state is what a person sees. */
function lastRewrite(text: string): string {
  const states = text.split('\r');
  for (let i = states.length - 1; i >= 0; i--) if (states[i]!.trim()) return states[i]!;
  return states.at(-1) ?? '';
}

function applyBackspaces(text: string): string {
  const shown: string[] = [];
  for (const character of text) {
    if (character === '\b') shown.pop();
    else shown.push(character);
  }
  return shown.join('');
}

/** Keeps the beginning and the end of a long line. `hiddenBytes` of its middle are already missing. */
export function shorten(text: string, maxBytes: number, hiddenBytes = 0): string {
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  const remark = cutRemark(bytes.length - maxBytes + hiddenBytes);
  const room = Math.max(maxBytes - Buffer.byteLength(remark), 16);
  const head = bytes.subarray(0, Math.floor(room * 0.6));
  const tail = bytes.subarray(bytes.length - Math.floor(room * 0.4));
  return `${wholeEnd(head)}${remark}${wholeStart(tail)}`;
}

/** Shortens a long line around the relevant position, unless that is near one of its ends. */
export function shortenAround(text: string, place: number, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const at = Buffer.byteLength(text.slice(0, place));
  const room = Math.max(maxBytes - 2 * maxRemarkBytes, 16);
  const from = Math.max(at - Math.floor(room / 3), 0);
  if (from === 0 || from + room >= bytes.length) return shorten(text, maxBytes);
  const shown = bytes.subarray(from, from + room);
  const after = bytes.length - from - room;
  return `${cutRemark(from)}${wholeStart(shown.subarray(0, room - partialEnd(shown)))}${cutRemark(after)}`;
}

const cutRemark = (bytes: number): string => `…[+${formatNumber(bytes)} bytes]…`;
const maxRemarkBytes = 30;

/** Text without a partial character at the end or at the start. */
function wholeEnd(bytes: Buffer): string {
  return bytes.subarray(0, bytes.length - partialEnd(bytes)).toString();
}

function wholeStart(bytes: Buffer): string {
  return bytes.subarray(partialStart(bytes)).toString();
}

/** Number of bytes at the end that begin an incomplete character. */
export function partialEnd(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte >= 0b1100_0000) return sequenceLength(byte) > back ? back : 0;
    if (byte < 0b1000_0000) return 0;
  }
  return 0;
}

/** Number of bytes at the start that belong to a character before them. */
export function partialStart(bytes: Buffer): number {
  let n = 0;
  while (n < 3 && n < bytes.length && (bytes[n]! & 0b1100_0000) === 0b1000_0000) n++;
  return n;
}

// oxlint-disable-next-line no-control-regex -- see above
const unfinished = /^\u001b(?:[\]PX^_][^\u0007\n]*|\[[0-?]*[ -/]*|[ -/]*)$/;
/** Titles and links are the longest escape codes. Longer ones are not waited for. */
const maxEscapeBytes = 1024;

/** Number of bytes at the end that begin an incomplete escape code. Cleaning it too early would turn its rest into text. */
export function partialEscape(bytes: Buffer): number {
  const at = bytes.lastIndexOf(0x1b);
  if (at < 0 || bytes.length - at > maxEscapeBytes) return 0;
  return unfinished.test(bytes.toString('latin1', at)) ? bytes.length - at : 0;
}

function sequenceLength(byte: number): number {
  if (byte >= 0b1111_0000) return 4;
  return byte >= 0b1110_0000 ? 3 : 2;
}

export const formatNumber = (value: number): string => value.toLocaleString('en-US');
