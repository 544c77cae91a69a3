// `errand migrate`, `errand store copy` (on stores that no server has open) and `errand store check` (on any).
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';

export const migrate = command({
  summary: 'bring a PostgreSQL store up to date',
  flags: {
    store: { type: 'string', value: 'postgres://…', help: 'the store, instead of ERRAND_STORE' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run({ program, screen }, { values }) {
    const applied = await program.migrate(values.store);
    if (values.json) screen.out(`${JSON.stringify({ applied })}\n`);
    else screen.out(applied.length > 0 ? `applied ${applied.join(', ')}\n` : 'nothing to do\n');
    return 0;
  },
});

export const store = command({
  summary: 'verify a store (store check), or move everything to another one (store copy)',
  args: 'check | copy --from STORE --to STORE',
  flags: {
    from: { type: 'string', value: 'STORE', help: 'copy: sqlite:HOME or postgres://…' },
    to: { type: 'string', value: 'STORE', help: 'copy: sqlite:HOME or postgres://…' },
    store: { type: 'string', value: 'postgres://…', help: 'check: instead of ERRAND_STORE' },
    home: { type: 'string', value: 'DIR', help: 'check: the home, instead of ERRAND_HOME' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const [verb, ...more] = positionals;
    if (verb === 'check' && more.length === 0) return check(context, values);
    if (verb === 'copy' && more.length === 0) return copy(context, values, usage);
    throw new AppError('invalidInput', 'Name what to do: check or copy.', { hint: usage });
  },
});

interface Values {
  from?: string | undefined;
  to?: string | undefined;
  store?: string | undefined;
  home?: string | undefined;
  json?: boolean | undefined;
}

/** Exit 0: sound. Exit 1: problems were found. Any other code: it could not be checked. */
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
        ? '✓ every page, row and counter is sound\n'
        : `${report.problems.length} problems. Back up first, then restore a sound backup with \`errand restore FILE\`.\n`,
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
    throw new AppError('invalidInput', 'Name both stores.', { hint: usage });
  const report = await program.copyStore(from, to);
  if (json) {
    screen.out(`${JSON.stringify(report)}\n`);
    return 0;
  }
  for (const { name, rows } of report.tables) if (rows > 0) screen.out(`${name}: ${rows} rows\n`);
  screen.out(`${report.waiting} waiting, ${report.held} running; every row was compared\n`);
  return 0;
}
