// Checks the agent clients of this machine: whether each is configured, and whether its exact configuration works.
import { findClients, readEntry, shadowedBy } from '../agent-clients/find.ts';
import { isDisabled, variablesOf, type Connection } from '../agent-clients/connection.ts';
import { performHandshake, type Handshake } from '../agent-clients/handshake.ts';
import { versionOf } from '../agent-clients/own-command.ts';
import type { AgentClient, Scope, UserPlace } from '../agent-clients/table.ts';
import { errorBody } from '../errors.ts';
import { systemClock } from '../runtime/clock.ts';
import type { Finding, Machine } from '../runtime/machine.ts';
import { version } from '../version.ts';

/** What programs that are started from a desktop have. */
const desktopPath = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin';

export async function checkClients(machine: Machine): Promise<Finding[]> {
  const { platform, env } = machine;
  const userHome = machine.at(machine.userHome);
  const place: UserPlace = { platform, env, userHome, cwd: process.cwd() };
  const found = findClients(place);
  if (found.length === 0)
    return [
      {
        name: 'clients',
        state: 'note',
        text: 'no agent client found on this machine',
        hint: 'Install one, then run `errand add`.',
      },
    ];
  const handshakes = new Map<string, Promise<Handshake>>();
  const findings: Finding[] = [];
  const missing: string[] = [];
  for (const client of found) {
    const own = await checkClient(place, client, handshakes);
    if (own.length === 0) missing.push(client.name);
    findings.push(...own);
  }
  if (missing.length === 0) return findings;
  const text = `not connected: ${missing.join(', ')}`;
  return [...findings, { name: 'clients', state: 'note', text, hint: 'Run `errand add`.' }];
}

/** Empty if the client has no entry. */
async function checkClient(
  place: UserPlace,
  client: AgentClient,
  handshakes: Map<string, Promise<Handshake>>,
): Promise<Finding[]> {
  const scopes: Scope[] = client.projectFiles.length > 0 ? ['user', 'project'] : ['user'];
  const findings: Finding[] = [];
  for (const scope of scopes) {
    const name = scope === 'user' ? client.name : `${client.name} (project)`;
    try {
      const { entry, connection, file } = readEntry(place, { client, scope });
      if (entry === undefined) continue;
      if (!connection) {
        findings.push({
          name,
          state: 'problem',
          text: `the entry in ${file.path} has neither a command nor a URL`,
          hint: repair(client, scope),
        });
        continue;
      }
      const env = { ...environmentOf(place, client), ...variablesOf(entry) };
      const key = JSON.stringify([connection, env]);
      const started =
        handshakes.get(key) ?? performHandshake(connection, { clock: systemClock, env });
      handshakes.set(key, started);
      const shadow = shadowedBy(place, { client, scope });
      const own = await versionOf(place, client.program);
      findings.push(
        report(
          { name, own, repair: repair(client, scope), shadow, isDisabled: isDisabled(entry) },
          connection,
          await started,
        ),
      );
    } catch (error) {
      const { message, hint } = errorBody(error);
      findings.push({ name, state: 'problem', text: message, ...(hint ? { hint } : {}) });
    }
  }
  return findings;
}

function report(
  {
    name,
    own,
    repair: hint,
    shadow,
    isDisabled: isOff,
  }: {
    name: string;
    own?: string | undefined;
    repair: string;
    shadow?: string | undefined;
    isDisabled: boolean;
  },
  connection: Connection,
  handshake: Handshake,
): Finding {
  const prefix = own === undefined ? '' : `version ${own}, `;
  if (!handshake.ok)
    return { name, state: 'problem', text: `${prefix}cannot connect: ${handshake.problem}`, hint };
  const target = 'url' in connection ? ` at ${connection.url}` : '';
  const text = `${prefix}connected to ${handshake.server} ${handshake.version}${target} (${handshake.tools} tools)`;
  if (isOff)
    return {
      name,
      state: 'note',
      text: `${text}; it is switched off in this client`,
      hint: 'Switch it on there.',
    };
  if (handshake.version !== version)
    return { name, state: 'note', text: `${text}; this installation is ${version}`, hint };
  if (shadow === undefined) return { name, state: 'ok', text };
  return {
    name,
    state: 'note',
    text: `${text}; in this folder another entry takes precedence: ${shadow}`,
  };
}

const repair = ({ id }: AgentClient, scope: Scope): string =>
  `\`errand add ${id}${scope === 'project' ? ' --project' : ''}\` connects it to this installation.`;

/** A client that is started from a desktop does not have the PATH of the shell. */
function environmentOf(
  { env, userHome }: UserPlace,
  { isDesktop }: AgentClient,
): Record<string, string> {
  const own = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('ERRAND_'),
  );
  return isDesktop ? { HOME: userHome, PATH: desktopPath } : Object.fromEntries(own);
}
