// Takes a shell line apart far enough for policy rules: the words of every simple command in it. It does not
// pretend: substitutions, here-documents and interpreters of further text make the answer incomplete.

export interface Programs {
  /** Words of each simple command, assignments before it left out. */
  programs: string[][];
  complete: boolean;
  /** Why not complete. */
  why?: string;
}

/** Programs that run what their arguments say; with these a rule would judge the wrong program. */
const runners = new Set(['eval', 'source', '.', 'exec', 'xargs', 'env', 'nohup', 'time', 'nice']);
const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'fish']);
const keywords = new Set(
  'if then else elif fi for while until do done case esac in { } ! function select'.split(' '),
);

export function programsOf(command: string | readonly string[]): Programs {
  if (typeof command !== 'string') return judged([[...command]]);
  const split = splitCommands(command);
  return 'why' in split
    ? { programs: [], complete: false, why: split.why }
    : judged(split.commands);
}

function judged(commands: string[][]): Programs {
  const programs: string[][] = [];
  for (const command of commands) {
    const words = [...command];
    while (words[0] !== undefined && /^[A-Za-z_]\w*\+?=/.test(words[0])) words.shift();
    if (words[0] === undefined) continue;
    const name = words[0].slice(words[0].lastIndexOf('/') + 1);
    if (keywords.has(name)) return unclear(`\`${name}\` begins a compound command`);
    if (runners.has(name)) return unclear(`\`${name}\` runs its arguments`);
    if (shells.has(name) && words.length > 1) return unclear(`\`${name}\` reads further commands`);
    programs.push(words);
  }
  return { programs, complete: true };
}

const unclear = (why: string): Programs => ({ programs: [], complete: false, why });

interface Scan {
  words: string[];
  word: string | undefined;
  skipNext: boolean;
}

function splitCommands(line: string): { commands: string[][] } | { why: string } {
  const commands: string[][] = [];
  const scan: Scan = { words: [], word: undefined, skipNext: false };
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
    if (c === '`' || (c === '$' && line[i + 1] === '(')) return { why: 'it has a substitution' };
    if (c === '<' && line[i + 1] === '<') return { why: 'it has a here-document' };
    if ((c === '<' || c === '>') && line[i + 1] === '(') return { why: 'it has a substitution' };
    if (c === '(' || c === ')') return { why: 'it has a subshell or function' };
    if (c === "'" || c === '"') {
      const end = quoteEnd(line, i);
      if (end < 0) return { why: 'a quote is not closed' };
      const inner = line.slice(i + 1, end);
      if (c === '"' && /`|\$\(/.test(inner)) return { why: 'it has a substitution' };
      scan.word = (scan.word ?? '') + (c === '"' ? inner.replaceAll(/\\(["\\$`])/g, '$1') : inner);
      i = end;
    } else if (c === '\\') {
      scan.word = (scan.word ?? '') + (line[++i] ?? '');
    } else if (c === '#' && scan.word === undefined) {
      while (i + 1 < line.length && line[i + 1] !== '\n') i++;
    } else if (c === '\n' || c === ';' || c === '|' || (c === '&' && !isRedirect(line, i))) {
      endCommand();
    } else if (c === '<' || c === '>') {
      if (scan.word !== undefined && /^\d+$/.test(scan.word)) scan.word = undefined;
      endWord();
      while (line[i + 1] === '>' || line[i + 1] === '&' || line[i + 1] === '|') i++;
      scan.skipNext = true;
    } else if (c === ' ' || c === '\t') {
      endWord();
    } else if (c !== '&') {
      scan.word = (scan.word ?? '') + c;
    }
  }
  endCommand();
  return { commands };
}

/** `&>file` is a redirection, `a & b` are two commands. */
const isRedirect = (line: string, at: number): boolean => line[at + 1] === '>';

function quoteEnd(line: string, start: number): number {
  const quote = line[start]!;
  for (let i = start + 1; i < line.length; i++) {
    if (quote === '"' && line[i] === '\\') i++;
    else if (line[i] === quote) return i;
  }
  return -1;
}
