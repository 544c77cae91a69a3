// Making output readable for a model: terminal escapes out, carriage-return rewrites collapsed to what a person
// would see last, long lines shortened. Pure; every line keeps its place in the file.

/** A line, or what became of several: `at` and `end` are byte offsets in the log and never change. */
export interface Line {
  at: number;
  end: number;
  text: string;
  /** False for a last line that has no newline (yet): a prompt. */
  ended: boolean;
  /** Of a line longer than a window: this many bytes within it are not in `text`. */
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
  if (clean.includes('\b')) clean = backspaced(clean);
  return clean.replace(controls, '');
}

/** `10 %\r20 %\r30 %` was one line that changed: the last non-empty state is what one sees. */
function lastRewrite(text: string): string {
  const states = text.split('\r');
  for (let i = states.length - 1; i >= 0; i--) if (states[i]!.trim()) return states[i]!;
  return states.at(-1) ?? '';
}

function backspaced(text: string): string {
  const shown: string[] = [];
  for (const character of text) {
    if (character === '\b') shown.pop();
    else shown.push(character);
  }
  return shown.join('');
}

/** A long line keeps its beginning and its end; `hiddenBytes` of its middle are missing already. */
export function shortened(text: string, bytesMax: number, hiddenBytes = 0): string {
  if (text.length * 3 <= bytesMax || Buffer.byteLength(text) <= bytesMax) return text;
  const bytes = Buffer.from(text);
  const remark = cutRemark(bytes.length - bytesMax + hiddenBytes);
  const room = Math.max(bytesMax - Buffer.byteLength(remark), 16);
  const head = bytes.subarray(0, Math.floor(room * 0.6));
  const tail = bytes.subarray(bytes.length - Math.floor(room * 0.4));
  return `${wholeEnd(head)}${remark}${wholeStart(tail)}`;
}

/** A long line around the place that matters, if that does not lie at one of its ends. */
export function shortenedAround(text: string, place: number, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  const at = Buffer.byteLength(text.slice(0, place));
  const room = Math.max(bytesMax - 2 * remarkBytesMax, 16);
  const from = Math.max(at - Math.floor(room / 3), 0);
  if (from === 0 || from + room >= bytes.length) return shortened(text, bytesMax);
  const shown = bytes.subarray(from, from + room);
  const after = bytes.length - from - room;
  return `${cutRemark(from)}${wholeStart(shown.subarray(0, room - partialEnd(shown)))}${cutRemark(after)}`;
}

const cutRemark = (bytes: number): string => `…[+${number(bytes)} bytes]…`;
const remarkBytesMax = 30;

/** Text of bytes that may be cut within a character at their end, or at their start. */
function wholeEnd(bytes: Buffer): string {
  return bytes.subarray(0, bytes.length - partialEnd(bytes)).toString();
}

function wholeStart(bytes: Buffer): string {
  return bytes.subarray(partialStart(bytes)).toString();
}

/** How many bytes at the end begin a character that is not complete. */
export function partialEnd(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte >= 0b1100_0000) return sequenceLength(byte) > back ? back : 0;
    if (byte < 0b1000_0000) return 0;
  }
  return 0;
}

/** How many bytes at the start belong to a character before them. */
export function partialStart(bytes: Buffer): number {
  let n = 0;
  while (n < 3 && n < bytes.length && (bytes[n]! & 0b1100_0000) === 0b1000_0000) n++;
  return n;
}

// oxlint-disable-next-line no-control-regex -- see above
const unfinished = /^\u001b(?:[\]PX^_][^\u0007\n]*|\[[0-?]*[ -/]*|[ -/]*)$/;
/** Titles and links are the longest; what is longer is not waited for. */
const escapeBytesMax = 1024;

/** How many bytes at the end begin an escape that is not complete: cleaned without its rest, the rest would be text. */
export function partialEscape(bytes: Buffer): number {
  const at = bytes.lastIndexOf(0x1b);
  if (at < 0 || bytes.length - at > escapeBytesMax) return 0;
  return unfinished.test(bytes.toString('latin1', at)) ? bytes.length - at : 0;
}

function sequenceLength(byte: number): number {
  if (byte >= 0b1111_0000) return 4;
  return byte >= 0b1110_0000 ? 3 : 2;
}

export const number = (value: number): string => value.toLocaleString('en-US');
