// `errand help` shows the most used commands in groups; `errand help all` lists every command.
import type { CatalogEntry } from './operations-route.ts';
import type { CommandContext, CommandLoaders } from './command.ts';
import { findSubcommands, withoutFlags } from './operation-command.ts';
import { fitToWidth, textWidth } from './width.ts';

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
      ['show JOB', 'status of a job, and why it is waiting'],
      ['logs JOB', 'job output (-f: follow, --errors: only errors)'],
      ['wait JOB…', 'wait until jobs have ended'],
      ['watch', 'print a line for each job that needs attention'],
      ['attach JOB', 'connect to the terminal of a job (run --tty)'],
      ['send JOB TEXT', 'type a line into a job'],
      ['cancel JOB…', 'stop jobs'],
      ['retry JOB…', 'retry failed jobs'],
      ['rerun JOB', 'run an ended job again as a new job'],
      ['rm JOB…', 'delete ended jobs with their output'],
      ['result, events, pin, signal, resize', 'more commands for one job'],
    ],
  },
  {
    title: 'Read the web',
    rows: [
      ['read URL', 'one page as Markdown'],
      ['crawl URL', 'crawl a site as a job (pages JOB: its pages)'],
      ['search QUERY', 'search the web (see also answer, news, images)'],
      ['map, extract, screenshot, browse', 'more commands for sites and pages'],
    ],
  },
  {
    title: 'Endpoints and hired work',
    rows: [
      ['endpoint, batch', 'your own serverless endpoints, and batches of jobs'],
      ['work, wallet, escrow', 'hire other agents and pay them'],
    ],
  },
  {
    title: 'Server and settings',
    rows: [
      ['serve, stop', 'run the server in the foreground; stop it'],
      ['service install', 'start the server when you log in'],
      ['open', 'open the dashboard in the browser'],
      ['add, remove', 'connect the agent clients of this machine; disconnect them'],
      ['doctor', 'diagnose problems, with a real handshake per agent client'],
      ['config show', 'all settings, and where each value comes from'],
      ['backup, restore', 'copy the database (--with-output: and job output)'],
      ['key, session, queue, webhook, node', 'access, limits, notifications, cluster'],
      ['mcp', 'MCP server for agents (stdio)'],
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

export function printOverview({ screen, program }: CommandContext): number {
  const blocks = groups.map(({ title, rows }) => `${title}:\n${rows.map(rowText).join('\n')}`);
  screen.out(
    `errand ${program.version}: jobs for AI agents and the people who run them\n\n` +
      `Usage: errand COMMAND [FLAGS]\n\n${blocks.join('\n\n')}\n\n` +
      `JOB is an id, an id prefix, a name, or @last (the newest job).\n\n` +
      `Examples:\n${examples.map((line) => `  ${line}`).join('\n')}\n\n` +
      `\`errand help COMMAND\` explains a command, \`errand help all\` lists every command.\n` +
      `Every command accepts --home DIR; most accept --json.\n`,
  );
  return 0;
}

function rowText([words, summary]: Row): string {
  const isLong = words.length > wordColumns;
  return `  ${words.padEnd(isLong ? 0 : wordColumns)}  ${summary}`;
}

/** `errand help all`: commands for jobs, then one block per area (`queue …`), then commands for the server. */
export async function printAllCommands(context: CommandContext): Promise<number> {
  const { screen, commands } = context;
  const { operations } = await (await context.client()).catalog();
  const customNames = new Set(
    operations.flatMap(({ cli }) => (cli?.custom ? [cli.words[0]!] : [])),
  );
  const isJobCommand = (name: string) =>
    customNames.has(name) || name === 'attach' || name === 'result';
  const builtIn = await builtInRows(commands);
  const rows = (isWanted: (name: string) => boolean) => builtIn.filter(([name]) => isWanted(name));
  const blocks = new Map([['jobs', rows(isJobCommand)]]);
  for (const entry of operations) {
    const { cli } = entry;
    if (!cli || cli.custom) continue;
    const [first] = cli.words;
    const area = relatedArea(first!, blocks) ?? (cli.words.length > 1 ? first! : areaFor(entry));
    blocks.set(area, [...(blocks.get(area) ?? []), [cli.words.join(' '), summaryOf(entry)]]);
  }
  const server = blocks.get('server') ?? [];
  blocks.set('server', [...rows((name) => !isJobCommand(name)), ...server]);
  const texts = [...blocks.values()].filter((block) => block.length > 0).map(blockText);
  screen.out(`${texts.join('\n')}\n\`errand help COMMAND\` explains a command.\n`);
  return 0;
}

/** `errand help queue`: lists the commands of a group. */
export function groupHelp(entries: readonly CatalogEntry[], argv: readonly string[]): string {
  const noun = withoutFlags(argv).join(' ');
  return `Usage: errand ${noun} COMMAND\n\n${commandRows(entries)}\n\`errand help ${noun} COMMAND\` explains one.\n`;
}

/** `errand help crawl`: lists `crawl pause` and the like below the help of `crawl`. */
export function subcommandHelp(entries: readonly CatalogEntry[], { cli }: CatalogEntry): string {
  const below = findSubcommands(entries, cli!.words).filter(
    (entry) => entry.cli!.words.length > cli!.words.length,
  );
  return below.length > 0 ? `\nCommands:\n${commandRows(below)}` : '';
}

const commandRows = (entries: readonly CatalogEntry[]): string =>
  blockText(entries.map((entry): Row => [entry.cli!.words.join(' '), summaryOf(entry)]));

function blockText(rows: readonly Row[]): string {
  const width = Math.max(...rows.map(([words]) => words.length));
  return rows.map(([words, text]) => `${cut(`  ${words.padEnd(width)}  ${text}`)}\n`).join('');
}

const cut = (line: string): string =>
  textWidth(line) > columns ? fitToWidth(line, columns).trimEnd() : line;

function builtInRows(commands: CommandLoaders): Promise<Row[]> {
  const loaded = Object.entries(commands).map(async ([name, load]): Promise<Row> => [
    name,
    (await load()).summary,
  ]);
  return Promise.all(loaded);
}

/** `crawl pause` is listed with `crawl`. */
function relatedArea(word: string, blocks: ReadonlyMap<string, Row[]>): string | undefined {
  const isRelated = ([words]: Row) => word === words;
  return [...blocks].find(([, rows]) => rows.some(isRelated))?.[0];
}

/** A single-word command is listed with its toolset; commands for jobs are listed together. */
function areaFor({ toolsets = [], name }: CatalogEntry): string {
  if (toolsets.length === 0) return /_jobs?$/.test(name) ? 'jobs' : 'server';
  const own = toolsets.find((toolset) => toolset !== 'default') ?? 'jobs';
  return own === 'command' ? 'jobs' : own;
}

/** A two-word title (“Cancel job”) only repeats the command, so the start of the description is used instead. */
function summaryOf({ title, description, cli }: CatalogEntry): string {
  if (cli?.summary !== undefined) return cli.summary;
  const text =
    title.split(' ').length > 2 ? title : (/^[^.:;(]+/.exec(description)?.[0].trim() ?? title);
  return text.charAt(0).toLowerCase() + text.slice(1);
}
