// `errand migrate`, `errand store copy` (for stores that no server has open) and `errand store check`.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';

export const migrate = command({
  summary: 'apply pending migrations to a PostgreSQL store',
  about:
    'Applies pending migrations to a PostgreSQL store. Run it before the first start and after every upgrade. Nodes of the previous version can keep running.',
  flags: {
    store: { type: 'string', value: 'postgres://…', help: 'store address (default: ERRAND_STORE)' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run({ program, screen }, { values }) {
    const applied = await program.migrate(values.store);
    if (values.json) screen.out(`${JSON.stringify({ applied })}\n`);
    else
      screen.out(applied.length > 0 ? `applied ${applied.join(', ')}\n` : 'already up to date\n');
    return 0;
  },
});

export const store = command({
  summary: 'verify a store (store check) or copy it to another one (store copy)',
  about:
    '`store check` reads the whole database and reports problems; it changes nothing and works while servers run. `store copy` copies everything into an empty store; no server may have either store open.',
  examples: [
    'errand store check',
    'errand store copy --from sqlite:HOME --to postgres://db/errand',
  ],
  args: 'check | copy --from STORE --to STORE',
  flags: {
    from: { type: 'string', value: 'STORE', help: 'copy: sqlite:HOME or postgres://…' },
    to: { type: 'string', value: 'STORE', help: 'copy: sqlite:HOME or postgres://…' },
    store: {
      type: 'string',
      value: 'postgres://…',
      help: 'check: store address (default: ERRAND_STORE)',
    },
    home: { type: 'string', value: 'DIR', help: 'check: home folder (default: ERRAND_HOME)' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const [verb, ...more] = positionals;
    if (verb === 'check' && more.length === 0) return check(context, values);
    if (verb === 'copy' && more.length === 0) return copy(context, values, usage);
    throw new AppError('invalidInput', 'A subcommand is required: check or copy.', {
      hint: usage,
    });
  },
});

interface Values {
  from?: string | undefined;
  to?: string | undefined;
  store?: string | undefined;
  home?: string | undefined;
  json?: boolean | undefined;
}

/** Exit code: 0 if the store is sound, 1 if problems were found; any other code means that the check failed. */
async function check({ program, screen }: CommandContext, values: Values): Promise<number> {
  const report = await program.checkStore({
    ...(values.home === undefined ? {} : { home: values.home }),
    ...(values.store === undefined ? {} : { store: values.store }),
  });
  if (values.json) screen.out(`${JSON.stringify(report)}\n`);
  else {
    screen.out(`${report.store}: ${report.tables} tables, ${report.rows} rows\n`);
    for (const note of report.notes) screen.out(`· ${note}\n`);
    for (const { check: name, text } of report.problems) screen.out(`✗ ${name}: ${text}\n`);
    screen.out(
      report.ok
        ? '✓ every page, row, counter and dispatch entry is sound\n'
        : `${report.problems.length} problems found. Back up the store, then restore a sound backup with \`errand restore FILE\`.\n`,
    );
  }
  return report.ok ? 0 : 1;
}

async function copy(
  { program, screen }: CommandContext,
  { from, to, json }: Values,
  usage: string,
): Promise<number> {
  if (from === undefined || to === undefined)
    throw new AppError('invalidInput', '--from and --to are required.', { hint: usage });
  const report = await program.copyStore(from, to);
  if (json) {
    screen.out(`${JSON.stringify(report)}\n`);
    return 0;
  }
  for (const { name, rows } of report.tables) if (rows > 0) screen.out(`${name}: ${rows} rows\n`);
  screen.out(`${report.waiting} waiting, ${report.held} running; all rows verified\n`);
  return 0;
}
