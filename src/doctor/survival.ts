// Whether what the server starts outlives the session, the client and the container that started it (Linux).
import { join } from 'node:path';
import type { Finding, Machine } from '../runtime/machine.ts';

const name = 'survival';

/** `pid`: of the server, when one runs. */
export function survival(pid: string | undefined, machine: Machine): Finding[] {
  if (machine.platform !== 'linux') return [];
  const found = [...container(machine), ...unit(pid, machine), ...logout(machine)];
  return found.length > 0
    ? found
    : [{ name, state: 'ok', text: 'jobs outlive the client and the server' }];
}

function container(machine: Machine): Finding[] {
  const inside =
    machine.has('/.dockerenv') ||
    machine.has('/run/.containerenv') ||
    (machine.env.container ?? '') !== '' ||
    /docker|kubepods|containerd|libpod|lxc/.test(machine.read('/proc/1/cgroup') ?? '');
  if (!inside) return [];
  return [
    {
      name,
      state: 'note',
      text: 'inside a container: jobs end with the container',
      hint: 'Keep the home on a volume; the next start says which jobs were lost.',
    },
  ];
}

/** systemd ends whatever is left in the cgroup of a service when that service stops. */
function unit(pid: string | undefined, machine: Machine): Finding[] {
  const running = pid === undefined ? undefined : machine.read(`/proc/${pid}/cgroup`);
  const cgroup = running ?? machine.read('/proc/self/cgroup') ?? '';
  const leaf = /^0::(\S*)$/m.exec(cgroup)?.[1]?.split('/').at(-1) ?? '';
  if (!leaf.endsWith('.service') || leaf === 'errand.service' || leaf.startsWith('user@'))
    return [];
  const who = running === undefined ? 'a server started here would be' : 'the server is';
  return [
    {
      name,
      state: 'problem',
      text: `${who} part of ${leaf}: when that stops, systemd ends the jobs with it`,
      hint: '`errand service install` gives the server a unit of its own.',
    },
  ];
}

function logout(machine: Machine): Finding[] {
  const lingers = machine.has(`/var/lib/systemd/linger/${machine.userName}`);
  const installed = machine.has(
    join(machine.env.XDG_CONFIG_HOME ?? join(machine.userHome, '.config'), unitPath),
  );
  if (installed && !lingers) {
    return [
      {
        name,
        state: 'note',
        text: 'the service and its jobs end when you log out for good',
        hint: '`loginctl enable-linger` keeps them.',
      },
    ];
  }
  if (installed || !killsAtLogout(machine)) return [];
  return [
    {
      name,
      state: 'problem',
      text: 'logind ends your processes at logout (KillUserProcesses=yes)',
      hint: '`loginctl enable-linger` and `errand service install` keep jobs alive.',
    },
  ];
}

const unitPath = 'systemd/user/errand.service';

/** The last word counts: the main file, then the drop-ins in the order of their names. */
function killsAtLogout(machine: Machine): boolean {
  const folders = ['/usr/lib/systemd', '/run/systemd', '/etc/systemd'];
  const main = folders.map((folder) => `${folder}/logind.conf`).filter((path) => machine.has(path));
  const dropIns = folders
    .flatMap((folder) =>
      machine
        .list(`${folder}/logind.conf.d`)
        .filter((file) => file.endsWith('.conf'))
        .map((file) => ({ file, path: `${folder}/logind.conf.d/${file}` })),
    )
    .toSorted((a, b) => (a.file < b.file ? -1 : 1));
  let kills = false;
  for (const path of [...main.slice(-1), ...dropIns.map((one) => one.path)]) {
    for (const [, word] of (machine.read(path) ?? '').matchAll(
      /^\s*KillUserProcesses\s*=\s*(\w+)/gim,
    ))
      kills = /^(yes|true|on|1)$/i.test(word!);
  }
  return kills;
}
