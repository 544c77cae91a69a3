// `errand help`: every command in one look, those that belong together in one block.
import type { CatalogEntry } from './bridge.ts';
import type { Command, CommandContext } from './command.ts';
import { commandsBelow, spokenWords } from './words.ts';

type Row = [words: string, summary: string];

/** Jobs first, then the area words (`queue …`) each in a block of its own, the server last. */
export async function overview(context: CommandContext): Promise<number> {
  const { screen, program, commands } = context;
  const blocks = new Map([['jobs', handWritten(commands, 'jobs')]]);
  for (const entry of await entriesOf(context)) {
    const { cli } = entry;
    if (!cli || cli.custom) continue;
    const [first] = cli.words;
    const area = kinOf(first!, blocks) ?? (cli.words.length > 1 ? first! : areaOf(entry));
    blocks.set(area, [...(blocks.get(area) ?? []), [cli.words.join(' '), summaryOf(entry)]]);
  }
  blocks.set('server', [...handWritten(commands, 'server'), ...(blocks.get('server') ?? [])]);
  const rows = [...blocks.values()].flat();
  const width = Math.max(...rows.map(([words]) => words.length));
  const line = ([words, summary]: Row) =>
    cut(`  ${words.padEnd(width)}  ${summary}`, screen.columns);
  const texts = [...blocks.values()]
    .filter((block) => block.length > 0)
    .map((block) => block.map(line).join('\n'));
  screen.out(
    `errand ${program.version}: jobs for AI agents\n\n${texts.join('\n\n')}\n\n` +
      `\`errand help COMMAND\` says more. Most commands take --json.\n`,
  );
  return 0;
}

/** `errand help queue`: what can be done with one. */
export function nounHelp(entries: readonly CatalogEntry[], argv: readonly string[]): string {
  const noun = spokenWords(argv).join(' ');
  return `Usage: errand ${noun} COMMAND\n\n${listed(entries)}\n\`errand help ${noun} COMMAND\` says more.\n`;
}

/** `errand help crawl`: what can be done with one that was started. */
export function helpBelow(entries: readonly CatalogEntry[], { cli }: CatalogEntry): string {
  const below = commandsBelow(entries, cli!.words).filter(
    (entry) => entry.cli!.words.length > cli!.words.length,
  );
  return below.length > 0 ? `\nCommands:\n${listed(below)}` : '';
}

function listed(entries: readonly CatalogEntry[]): string {
  const rows = entries.map((entry): Row => [entry.cli!.words.join(' '), summaryOf(entry)]);
  const width = Math.max(...rows.map(([words]) => words.length));
  return rows.map(([words, summary]) => `  ${words.padEnd(width)}  ${summary}\n`).join('');
}

/** None when no server can be had: help must work without one. */
async function entriesOf({ client, program }: CommandContext): Promise<CatalogEntry[]> {
  try {
    return (await (await client()).catalog()).operations;
  } catch (error) {
    program.log.debug('no server for the list of commands', { error });
    return [];
  }
}

function handWritten(commands: Readonly<Record<string, Command>>, area: Command['area']): Row[] {
  return Object.entries(commands)
    .filter(([, command]) => command.area === area)
    .map(([name, { summary }]) => [name, summary]);
}

/** `crawl pause` stands with `crawl`. */
function kinOf(word: string, blocks: ReadonlyMap<string, Row[]>): string | undefined {
  const isKin = ([words]: Row) => word === words;
  return [...blocks].find(([, rows]) => rows.some(isKin))?.[0];
}

/** A command of one word stands with its toolset; those of the job tools stand together. */
function areaOf({ toolsets = [] }: CatalogEntry): string {
  if (toolsets.length === 0) return 'server';
  const own = toolsets.find((name) => name !== 'default') ?? 'jobs';
  return own === 'command' ? 'jobs' : own;
}

/** A title of two words (“Cancel job”) says no more than the command itself: then what its description begins with. */
export function summaryOf({ title, description, cli }: CatalogEntry): string {
  if (cli?.summary !== undefined) return cli.summary;
  const text =
    title.split(' ').length > 2 ? title : (/^[^.:;(]+/.exec(description)?.[0].trim() ?? title);
  return text.charAt(0).toLowerCase() + text.slice(1);
}

const cut = (line: string, columns: number | undefined): string =>
  columns !== undefined && line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
