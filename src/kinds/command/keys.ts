// Keys by name: what a terminal sends for each, and what some of them mean to a command that has only a pipe.

/** What a terminal sends for a key. */
const keys = {
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
  'ctrl-a': '\u0001',
  'ctrl-b': '\u0002',
  'ctrl-c': '\u0003',
  'ctrl-d': '\u0004',
  'ctrl-e': '\u0005',
  'ctrl-k': '\u000b',
  'ctrl-l': '\u000c',
  'ctrl-r': '\u0012',
  'ctrl-u': '\u0015',
  'ctrl-w': '\u0017',
  'ctrl-z': '\u001a',
  'ctrl-backslash': '\u001c',
} as const;
export type Key = keyof typeof keys;
export const keyNames = Object.keys(keys) as [Key, ...Key[]];

export interface Typing {
  text: string;
  /** To be sent after the text, before the end of input. */
  signals: NodeJS.Signals[];
  end: boolean;
}

/** What the terminal driver does with these keys; a pipe has none, so they are done for it. */
const pipeSignals: Partial<Record<Key, NodeJS.Signals>> = {
  'ctrl-c': 'SIGINT',
  'ctrl-backslash': 'SIGQUIT',
  'ctrl-z': 'SIGTSTP',
};

export function typing(
  input: { text?: string; newline: boolean; keys?: Key[]; eof: boolean },
  tty: boolean,
): Typing {
  const { text = '', newline, keys: pressed = [], eof } = input;
  const enter = tty ? '\r' : '\n';
  const isTyped = (key: Key) => tty || !(key === 'ctrl-d' || key in pipeSignals);
  const typed = pressed.filter(isTyped).map((key) => (key === 'enter' ? enter : keys[key]));
  const line = `${text}${newline ? enter : ''}${typed.join('')}`;
  if (tty) return { text: line + (eof ? keys['ctrl-d'] : ''), signals: [], end: false };
  const signals = pressed.flatMap((key) => pipeSignals[key] ?? []);
  return { text: line, signals, end: eof || pressed.includes('ctrl-d') };
}
