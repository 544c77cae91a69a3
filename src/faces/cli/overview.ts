// `errand help`: the commands people use, in groups, with examples; `errand help all` lists every command.
import type { CatalogEntry } from './bridge.ts';
import type { Command, CommandContext } from './command.ts';
import { commandsBelow, spokenWords } from './words.ts';
import { fitted, textWidth } from './width.ts';

type Row = [words: string, summary: string];

interface Group {
  title: string;
  rows: Row[];
}

const groups: readonly Group[] = [
  {
    title: 'Run and watch jobs',
    rows: [
      ['run -- COMMAND', 'run a command as a job and follow it (-d: do not wait)'],
      ['list', 'jobs, newest first (--watch: live)'],
      ['show JOB', 'state of a job, and why it waits'],
      ['logs JOB', 'output of a job (-f: follow it, --errors: only the errors)'],
      ['wait JOB…', 'wait until jobs have ended'],
      ['attach JOB', 'use the terminal of a job started with run --tty'],
      ['send JOB TEXT', 'type a line into a job'],
      ['cancel JOB…', 'stop jobs'],
      ['retry JOB…', 'try failed jobs again'],
      ['rerun JOB', 'run an ended job again as a new job'],
      ['rm JOB…', 'delete ended jobs with their output'],
      ['result, events, pin, signal, resize', 'more about one job'],
    ],
  },
  {
    title: 'Read the web',
    rows: [
      ['read URL', 'one page as Markdown'],
      ['crawl URL', 'a whole site as a job (pages JOB: what it found)'],
      ['search QUERY', 'search the web (also answer, news, images)'],
      ['map, extract, screenshot, browse', 'more about a site or a page'],
    ],
  },
  {
    title: 'Endpoints and hired work',
    rows: [
      ['endpoint, batch', 'your own serverless endpoints, and many jobs for one'],
      ['work, wallet, escrow', 'hire other agents and pay them'],
    ],
  },
  {
    title: 'Server and settings',
    rows: [
      ['serve, stop', 'run the server in the foreground; stop it'],
      ['service install', 'start the server with your login'],
      ['doctor', 'find out why something does not work'],
      ['config show', 'every setting, and where its value comes from'],
      ['backup, restore', 'copy the database (--with-output: and the output)'],
      ['key, queue, webhook, node', 'access, limits, notifications, cluster'],
      ['mcp', 'the MCP server that an agent starts'],
    ],
  },
];

const examples = [
  'errand run -d --name tests -- npm test',
  'errand logs -f tests',
  'errand wait @last && errand read https://example.com',
];

const columns = 80;
const wordColumns = 18;

export function overview({ screen, program }: CommandContext): number {
  const blocks = groups.map(({ title, rows }) => `${title}:\n${rows.map(rowText).join('\n')}`);
  screen.out(
    `errand ${program.version}: jobs for AI agents and the people who run them\n\n` +
      `Usage: errand COMMAND [FLAGS]\n\n${blocks.join('\n\n')}\n\n` +
      `JOB is an id, the beginning of an id, a name, or @last (the newest job).\n\n` +
      `Examples:\n${examples.map((line) => `  ${line}`).join('\n')}\n\n` +
      `\`errand help COMMAND\` explains a command, \`errand help all\` lists every command.\n` +
      `Every command takes --home DIR; most take --json.\n`,
  );
  return 0;
}

function rowText([words, summary]: Row): string {
  const isLong = words.length > wordColumns;
  return `  ${words.padEnd(isLong ? 0 : wordColumns)}  ${summary}`;
}

/** `errand help all`: jobs first, then the area words (`queue …`) each in a block of its own, the server last. */
export async function everyCommand(context: CommandContext): Promise<number> {
  const { screen, commands } = context;
  const { operations } = await (await context.client()).catalog();
  const taken = new Set(operations.flatMap(({ cli }) => (cli?.custom ? [cli.words[0]!] : [])));
  const isJob = (name: string) => taken.has(name) || name === 'attach' || name === 'result';
  const rows = (isWanted: (name: string) => boolean) =>
    handWritten(commands, isWanted).map(([words, summary]): Row => [words, summary]);
  const blocks = new Map([['jobs', rows(isJob)]]);
  for (const entry of operations) {
    const { cli } = entry;
    if (!cli || cli.custom) continue;
    const [first] = cli.words;
    const area = kinOf(first!, blocks) ?? (cli.words.length > 1 ? first! : areaOf(entry));
    blocks.set(area, [...(blocks.get(area) ?? []), [cli.words.join(' '), summaryOf(entry)]]);
  }
  const server = blocks.get('server') ?? [];
  blocks.set('server', [...rows((name) => !isJob(name)), ...server]);
  const texts = [...blocks.values()].filter((block) => block.length > 0).map(blockText);
  screen.out(`${texts.join('\n')}\n\`errand help COMMAND\` explains a command.\n`);
  return 0;
}

/** `errand help queue`: what can be done with one. */
export function nounHelp(entries: readonly CatalogEntry[], argv: readonly string[]): string {
  const noun = spokenWords(argv).join(' ');
  return `Usage: errand ${noun} COMMAND\n\n${listed(entries)}\n\`errand help ${noun} COMMAND\` explains one.\n`;
}

/** `errand help crawl`: what can be done with one that was started. */
export function helpBelow(entries: readonly CatalogEntry[], { cli }: CatalogEntry): string {
  const below = commandsBelow(entries, cli!.words).filter(
    (entry) => entry.cli!.words.length > cli!.words.length,
  );
  return below.length > 0 ? `\nCommands:\n${listed(below)}` : '';
}

const listed = (entries: readonly CatalogEntry[]): string =>
  blockText(entries.map((entry): Row => [entry.cli!.words.join(' '), summaryOf(entry)]));

function blockText(rows: readonly Row[]): string {
  const width = Math.max(...rows.map(([words]) => words.length));
  return rows.map(([words, text]) => `${cut(`  ${words.padEnd(width)}  ${text}`)}\n`).join('');
}

const cut = (line: string): string =>
  textWidth(line) > columns ? fitted(line, columns).trimEnd() : line;

function handWritten(
  commands: Readonly<Record<string, Command>>,
  isWanted: (name: string) => boolean,
): Row[] {
  return Object.entries(commands)
    .filter(([name]) => isWanted(name))
    .map(([name, { summary }]) => [name, summary]);
}

/** `crawl pause` stands with `crawl`. */
function kinOf(word: string, blocks: ReadonlyMap<string, Row[]>): string | undefined {
  const isKin = ([words]: Row) => word === words;
  return [...blocks].find(([, rows]) => rows.some(isKin))?.[0];
}

/** A command of one word stands with its toolset; those of the job tools stand together. */
function areaOf({ toolsets = [], name }: CatalogEntry): string {
  if (toolsets.length === 0) return /_jobs?$/.test(name) ? 'jobs' : 'server';
  const own = toolsets.find((toolset) => toolset !== 'default') ?? 'jobs';
  return own === 'command' ? 'jobs' : own;
}

/** A title of two words (“Cancel job”) says no more than the command itself: then what its description begins with. */
export function summaryOf({ title, description, cli }: CatalogEntry): string {
  if (cli?.summary !== undefined) return cli.summary;
  const text =
    title.split(' ').length > 2 ? title : (/^[^.:;(]+/.exec(description)?.[0].trim() ?? title);
  return text.charAt(0).toLowerCase() + text.slice(1);
}
