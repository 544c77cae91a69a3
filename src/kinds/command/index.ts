// The plugin that adds commands to the server.
import { join } from 'node:path';
import type { Job } from '../../jobs/job.ts';
import { definePlugin } from '../../plugin.ts';
import { commandKind } from './kind.ts';
import { controlOperations } from './operations/control.ts';
import { pathFallback, secretNames } from './environment.ts';
import { Environments } from './environments.ts';
import { checkTerminal } from './doctor.ts';
import { readExcerpt } from './output/excerpt.ts';
import { JobFiles } from './files.ts';
import { AttemptMonitor } from './attempt-monitor.ts';
import { Policy } from './policy.ts';
import { Terminals } from './process/terminal.ts';
import { maskSecrets } from './output/mask.ts';
import { httpProbe } from './probe.ts';
import { readJobOutput, readOutputOperation } from './operations/read-output.ts';
import type { OutputResponse, OutputRequest } from './output/request.ts';
import { rerunCommand, runCommandOperation } from './operations/run-command.ts';
import { Secrets } from './secrets.ts';
import { commandSettings, type CommandSettings } from './settings.ts';
import { commandMigrations } from './migrations.ts';
import { History, oldestJobAt } from './store/history.ts';
import { watchJob } from '../../contracts/jobs.ts';
import { readOutput } from '../../contracts/command.ts';

export const commandPlugin = definePlugin<CommandSettings>({
  name: 'command',
  settings: commandSettings,
  errors: {
    cwdMissing: { http: 409, exit: 5 },
    cannotStart: { http: 409, exit: 5, retryable: true },
    secretMissing: { http: 409, exit: 5 },
    environmentMissing: { http: 409, exit: 5 },
    outputLimit: { http: 409, exit: 6 },
    exitCode: { http: 409, exit: 1 },
    signal: { http: 409, exit: 1 },
    commandNotFound: { http: 409, exit: 127 },
    notExecutable: { http: 409, exit: 126 },
    survivors: { http: 409, exit: 1 },
  },
  migrations: commandMigrations,
  examine: (settings, machine) => [checkTerminal(settings, machine)],
  create: (deps) => {
    const { jobs, waiting, clock, log, settings, folder, node, store } = deps;
    const files = new JobFiles(folder, node, store.engine === 'postgres');
    const history = new History(store, node);
    const monitor = new AttemptMonitor({ folder, settings, clock, log, history });
    const policy = new Policy(settings.policy);
    const secrets = new Secrets((name) => deps.homeSecret(name));
    const environments = new Environments({
      folder: join(deps.home, 'environments'),
      settings: settings.environment,
      rules: { ...settings.environment, passes: (name) => policy.passes(name) },
      clock,
      log,
      sign: (text) => deps.sign('environment', text),
      oldestJobAt: () => oldestJobAt(store),
    });
    const probe = httpProbe(deps.egress);
    const path = deps.secret('PATH') ?? pathFallback;
    const terminals = new Terminals({ method: settings.terminal, path });
    const serverValue = (name: string) => deps.secret(name);
    const rules = { isSecret: secretNames(settings.environment) };
    const mask = (id: string, text: string) =>
      settings.maskSecrets ? maskSecrets(text, rules, secrets.knownValues(id)) : text;
    const kind = commandKind({
      jobs,
      clock,
      settings,
      files,
      monitor,
      history,
      policy,
      secrets,
      environments,
      node,
      serverValue,
      probe,
      terminals,
      mask,
      find: (id) => jobs.get(id),
      watchThere: (id, until, signal) => deps.call(watchJob, { id, until }, signal),
    });
    const output = { jobs, files, clock, mask };
    const read = (job: Job, request: OutputRequest): Promise<OutputResponse> =>
      files.isElsewhere(job)
        ? deps.call(readOutput, { id: job.id, ...request })
        : readJobOutput(job, { ...request, unmasked: true }, output);
    const excerpt = async (job: Job, maxBytes: number) => {
      const shown = await readExcerpt(job, (request) => read(job, request), maxBytes);
      return shown.size === 0 ? undefined : { text: mask(job.id, shown.text), next: shown.next };
    };
    const submitting = {
      jobs,
      monitor,
      policy,
      secrets,
      environments,
      settings,
      node,
      serverValue,
      nodeLabel: store.engine === 'postgres' ? `node=${node}` : undefined,
    };
    const run = runCommandOperation({
      ...submitting,
      waiting,
      clock,
      mask,
      read,
      webhooks: deps.webhooks,
    });
    return {
      kind: { ...kind, excerpt, rerun: (job, context) => rerunCommand(job, context, submitting) },
      operations: [run, readOutputOperation(output), ...controlOperations(output)],
      services: [monitor, environments],
    };
  },
});
