// Named keys: what a terminal sends for each, and what some of them mean for a command that only has a pipe.
import type { keyNames } from '../../contracts/command.ts';
import { byName } from '../../runtime/by-name.ts';

/** What a terminal sends for each key. For ctrl and a letter, it is the letter's position in the alphabet. */
const sequences: Readonly<Record<string, string>> = byName({
  enter: '\r',
  tab: '\t',
  escape: '\u001b',
  backspace: '\u007f',
  space: ' ',
  up: '\u001b[A',
  down: '\u001b[B',
  right: '\u001b[C',
  left: '\u001b[D',
  home: '\u001b[H',
  end: '\u001b[F',
  'page-up': '\u001b[5~',
  'page-down': '\u001b[6~',
  delete: '\u001b[3~',
  'ctrl-backslash': '\u001c',
} satisfies Record<(typeof keyNames)[number], string>);

const sequenceOf = (key: string): string =>
  sequences[key] ??
  String.fromCodePoint(key.codePointAt('ctrl-'.length)! - 'a'.codePointAt(0)! + 1);

interface Typing {
  text: string;
  /** Sent after the text and before the end of input. */
  signals: NodeJS.Signals[];
  end: boolean;
}

/** What a terminal driver does for these keys. A pipe has no driver, so the server does it. */
const pipeSignals: Readonly<Record<string, NodeJS.Signals>> = byName({
  'ctrl-c': 'SIGINT',
  'ctrl-backslash': 'SIGQUIT',
  'ctrl-z': 'SIGTSTP',
});

export function toTyping(
  input: { text?: string; newline: boolean; keys?: string[]; eof: boolean },
  tty: boolean,
): Typing {
  const { text = '', newline, keys: pressed = [], eof } = input;
  const enter = tty ? '\r' : '\n';
  const isTyped = (key: string) => tty || !(key === 'ctrl-d' || key in pipeSignals);
  const typed = pressed.filter(isTyped).map((key) => (key === 'enter' ? enter : sequenceOf(key)));
  const line = `${text}${newline ? enter : ''}${typed.join('')}`;
  if (tty) return { text: line + (eof ? sequenceOf('ctrl-d') : ''), signals: [], end: false };
  const signals = pressed.flatMap((key) => pipeSignals[key] ?? []);
  return { text: line, signals, end: eof || pressed.includes('ctrl-d') };
}
