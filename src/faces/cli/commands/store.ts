// `errand migrate` and `errand store copy`: work on a store that no server has open.
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';

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
  summary: 'move everything to another store (store copy)',
  args: 'copy --from STORE --to STORE',
  flags: {
    from: { type: 'string', value: 'STORE', help: 'sqlite:HOME or postgres://…' },
    to: { type: 'string', value: 'STORE', help: 'sqlite:HOME or postgres://…' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run({ program, screen }, { values, positionals, usage }) {
    const { from, to } = values;
    if (positionals[0] !== 'copy' || from === undefined || to === undefined)
      throw new AppError('invalidInput', 'Name both stores.', { hint: usage });
    const report = await program.copyStore(from, to);
    if (values.json) {
      screen.out(`${JSON.stringify(report)}\n`);
      return 0;
    }
    for (const { name, rows } of report.tables) if (rows > 0) screen.out(`${name}: ${rows} rows\n`);
    screen.out(`${report.waiting} waiting, ${report.held} running; every row was compared\n`);
    return 0;
  },
});
