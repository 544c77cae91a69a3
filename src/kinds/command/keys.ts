// Keys by name: what a terminal sends for each, and what some of them mean to a command that has only a pipe.
import { byName } from '../../runtime/by-name.ts';

/** What a terminal sends for a key; ctrl with a letter is that letter's place in the alphabet. */
const named: Readonly<Record<string, string>> = byName({
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
});
export const keyForm = new RegExp(`^(${Object.keys(named).join('|')}|ctrl-[a-z])$`);
export const keyWords = `${Object.keys(named).join(', ')}, ctrl-a … ctrl-z`;

const sent = (key: string): string =>
  named[key] ?? String.fromCodePoint(key.codePointAt('ctrl-'.length)! - 'a'.codePointAt(0)! + 1);

export interface Typing {
  text: string;
  /** To be sent after the text, before the end of input. */
  signals: NodeJS.Signals[];
  end: boolean;
}

/** What the terminal driver does with these keys; a pipe has none, so they are done for it. */
const pipeSignals: Readonly<Record<string, NodeJS.Signals>> = byName({
  'ctrl-c': 'SIGINT',
  'ctrl-backslash': 'SIGQUIT',
  'ctrl-z': 'SIGTSTP',
});

export function typing(
  input: { text?: string; newline: boolean; keys?: string[]; eof: boolean },
  tty: boolean,
): Typing {
  const { text = '', newline, keys: pressed = [], eof } = input;
  const enter = tty ? '\r' : '\n';
  const isTyped = (key: string) => tty || !(key === 'ctrl-d' || key in pipeSignals);
  const typed = pressed.filter(isTyped).map((key) => (key === 'enter' ? enter : sent(key)));
  const line = `${text}${newline ? enter : ''}${typed.join('')}`;
  if (tty) return { text: line + (eof ? sent('ctrl-d') : ''), signals: [], end: false };
  const signals = pressed.flatMap((key) => pipeSignals[key] ?? []);
  return { text: line, signals, end: eof || pressed.includes('ctrl-d') };
}
