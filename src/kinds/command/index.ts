// How commands join the server.
import { definePlugin } from '../../jobs/plugin.ts';
import { commandKind } from './command.ts';
import { controlOperations } from './control.ts';
import { pathFallback } from './environment.ts';
import { examineTerminal } from './examine.ts';
import { JobFiles } from './files.ts';
import { Keeper } from './keeper.ts';
import { Policy } from './policy.ts';
import { Terminals } from './process/terminal.ts';
import { httpProbe } from './probe.ts';
import { readOutputOperation } from './read-output.ts';
import { rerunCommand, runCommand } from './run-command.ts';
import { Secrets } from './secrets.ts';
import { commandSettings, type CommandSettings } from './settings.ts';
import { commandMigrations, History } from './store.ts';

export const commandPlugin = definePlugin<CommandSettings>({
  name: 'command',
  settings: commandSettings,
  errors: {
    cwdMissing: { http: 409, exit: 5 },
    cannotStart: { http: 409, exit: 5, retryable: true },
    secretMissing: { http: 409, exit: 5 },
    outputLimit: { http: 409, exit: 6 },
    exitCode: { http: 409, exit: 1 },
    signal: { http: 409, exit: 1 },
    commandNotFound: { http: 409, exit: 127 },
    notExecutable: { http: 409, exit: 126 },
    survivors: { http: 409, exit: 1 },
  },
  migrations: commandMigrations,
  examine: (settings, machine) => [examineTerminal(settings, machine)],
  create: (needs) => {
    const { jobs, waiting, clock, log, settings, folder, node, store } = needs;
    const files = new JobFiles(folder, node, store.engine === 'postgres');
    const history = new History(store, node);
    const keeper = new Keeper({ folder, settings, clock, log, history });
    const policy = new Policy(settings.policy);
    const secrets = new Secrets((name) => needs.homeSecret(name));
    const probe = httpProbe(needs.egress);
    const path = needs.secret('PATH') ?? pathFallback;
    const terminals = new Terminals({ wish: settings.terminal, path });
    const serverValue = (name: string) => needs.secret(name);
    const kind = commandKind({
      jobs,
      clock,
      settings,
      files,
      keeper,
      history,
      policy,
      secrets,
      probe,
      terminals,
      find: (id) => jobs.get(id),
      watchThere: (id, until, signal) => needs.call('watch_job', { id, until }, signal),
    });
    const output = { jobs, files, clock };
    const submitting = {
      jobs,
      keeper,
      policy,
      secrets,
      settings,
      serverValue,
      nodeLabel: store.engine === 'postgres' ? `node=${node}` : undefined,
    };
    const run = runCommand({
      ...submitting,
      waiting,
      clock,
      files,
      outputThere: ({ id }, request) => needs.call('read_output', { id, ...request }),
    });
    return {
      kind: { ...kind, rerun: (job, context) => rerunCommand(job, context, submitting) },
      operations: [run, readOutputOperation(output), ...controlOperations(output)],
      services: [keeper],
    };
  },
});
