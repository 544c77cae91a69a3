// Parses a shell command line for policy rules: the words of every simple command in it. Unsupported syntax
// (substitutions, here-documents, unknown quotes) is an error. Words that the shell expands later are marked, and so are
// programs that run other programs.

export interface Word {
  text: string;
  /** False if the shell expands the word (a variable, a pattern, braces). */
  fixed: boolean;
}

interface SimpleCommand {
  /** Without leading assignments. */
  words: Word[];
  /** Why the words do not determine what runs. */
  unclear?: string;
}

type Programs = { commands: SimpleCommand[] } | { why: string };

/** Programs that run their arguments. A rule would otherwise check the wrong program. */
const runners = new Set(
  [
    'eval source . exec command builtin coproc trap',
    'xargs env nohup time nice ionice chrt taskset timeout setsid stdbuf sudo doas su runuser',
    'watch parallel busybox toybox flock script unshare nsenter chroot strace ltrace',
  ].flatMap((line) => line.split(' ')),
);
const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'fish']);
const keywords = new Set(
  'if then else elif fi for while until do done case esac in { } ! function select'.split(' '),
);

export function parsePrograms(command: string | readonly string[]): Programs {
  if (typeof command !== 'string')
    return { commands: [toSimpleCommand(command.map((text) => ({ text, fixed: true })))] };
  const split = splitCommands(command);
  if ('why' in split) return split;
  const commands: SimpleCommand[] = [];
  for (const words of split.commands) {
    const first = words.findIndex(({ text }) => !/^[A-Za-z_]\w*\+?=/.test(text));
    if (first < 0) continue;
    const name = words[first]!.text;
    if (keywords.has(name)) return { why: `\`${name}\` begins a compound command` };
    commands.push(toSimpleCommand(words.slice(first)));
  }
  return { commands };
}

function toSimpleCommand(words: Word[]): SimpleCommand {
  const { text, fixed } = words[0]!;
  const name = text.slice(text.lastIndexOf('/') + 1);
  if (!fixed) return { words, unclear: `the value of \`${text}\` is unknown before it runs` };
  if (runners.has(name)) return { words, unclear: `\`${name}\` runs its arguments` };
  if (name === 'find' && words.some((word) => /^-(exec|ok)/.test(word.text)))
    return { words, unclear: '`find` runs its arguments' };
  if (shells.has(name) && words.length > 1)
    return { words, unclear: `\`${name}\` reads further commands` };
  return { words };
}

interface Scan {
  words: Word[];
  word: Word | undefined;
  skipNext: boolean;
}

function splitCommands(line: string): { commands: Word[][] } | { why: string } {
  const commands: Word[][] = [];
  const scan: Scan = { words: [], word: undefined, skipNext: false };
  const add = (text: string, fixed = true) => {
    const { word = { text: '', fixed: true } } = scan;
    scan.word = { text: word.text + text, fixed: word.fixed && fixed };
  };
  const endWord = () => {
    if (scan.word === undefined) return;
    // The word after a redirection is a file, not an argument.
    if (scan.skipNext) scan.skipNext = false;
    else scan.words.push(scan.word);
    scan.word = undefined;
  };
  const endCommand = () => {
    endWord();
    if (scan.words.length > 0) commands.push(scan.words);
    scan.words = [];
  };
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    const next = line[i + 1];
    if (c === '`') return { why: 'it contains a substitution' };
    if (c === '<' && next === '<') return { why: 'it contains a here-document' };
    if ((c === '<' || c === '>') && next === '(') return { why: 'it contains a substitution' };
    if (c === '(' || c === ')') return { why: 'it contains a subshell or function' };
    if (c === '$') {
      const problem = expansionProblem(line, i);
      if (problem) return { why: problem };
      add(c, false);
    } else if (c === "'" || c === '"') {
      const quoted = quotedText(line, i);
      if ('why' in quoted) return quoted;
      add(quoted.text, quoted.fixed);
      i = quoted.end;
    } else if (c === '\\') {
      i++;
      // A backslash before a newline continues the line.
      if (next !== '\n') add(next ?? '');
    } else if (c === '#' && scan.word === undefined) {
      while (i + 1 < line.length && line[i + 1] !== '\n') i++;
    } else if (c === '\n' || c === ';' || c === '|' || (c === '&' && !isRedirect(line, i))) {
      endCommand();
    } else if (c === '<' || c === '>') {
      if (scan.word !== undefined && /^\d+$/.test(scan.word.text)) scan.word = undefined;
      endWord();
      while (['>', '&', '|'].includes(line[i + 1]!)) i++;
      scan.skipNext = true;
    } else if (c === ' ' || c === '\t') {
      endWord();
    } else if (c !== '&') {
      add(c, !isPattern(line, i, scan.word === undefined));
    }
  }
  endCommand();
  return { commands };
}

/** Unquoted characters that make the shell expand a word: file patterns, brace lists, the home folder. */
function isPattern(line: string, at: number, first: boolean): boolean {
  const c = line[at]!;
  if (c === '*' || c === '?') return true;
  if (c === '~') return first;
  const rest = line.slice(at);
  if (c === '[') return /^\[[^\s]*\]/.test(rest);
  return c === '{' && /^\{[^}]*(,|\.\.)/.test(rest);
}

/** A plain variable only has an unknown value. An expansion that may contain commands or quotes cannot be parsed. */
function expansionProblem(text: string, at: number): string | undefined {
  const rest = text.slice(at + 1);
  if (rest.startsWith('(')) return 'it contains a substitution';
  if (rest.startsWith("'") || rest.startsWith('"')) return 'it contains an unsupported quote';
  if (rest.startsWith('{') && !/^\{[\w#?@*!-]+\}/.test(rest)) return 'it contains a substitution';
  return undefined;
}

type Quoted = { text: string; fixed: boolean; end: number } | { why: string };

function quotedText(line: string, start: number): Quoted {
  const quote = line[start]!;
  if (quote === "'") {
    const end = line.indexOf("'", start + 1);
    return end < 0 ? notClosed : { text: line.slice(start + 1, end), fixed: true, end };
  }
  let text = '';
  let fixed = true;
  for (let i = start + 1; i < line.length; i++) {
    const c = line[i]!;
    if (c === '"') return { text, fixed, end: i };
    if (c === '`') return { why: 'it contains a substitution' };
    if (c === '\\' && '"\\$`\n'.includes(line[i + 1] ?? ' ')) {
      i++;
      if (line[i] !== '\n') text += line[i]!;
      continue;
    }
    if (c === '$' && /[\w{(@*#?!-]/.test(line[i + 1] ?? '')) {
      const problem = expansionProblem(line, i);
      if (problem) return { why: problem };
      fixed = false;
    }
    text += c;
  }
  return notClosed;
}

const notClosed = { why: 'a quote is not closed' };

/** `&>file` is a redirection; `a & b` is two commands. */
const isRedirect = (line: string, at: number): boolean => line[at + 1] === '>';
