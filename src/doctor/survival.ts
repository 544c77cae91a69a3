// Checks whether jobs survive the session, client or container that started the server (Linux).
import { join } from 'node:path';
import type { Finding, Machine } from '../runtime/machine.ts';

const name = 'survival';

/** `pid`: the running server's process id, if any. */
export function checkSurvival(pid: string | undefined, machine: Machine): Finding[] {
  if (machine.platform !== 'linux') return [];
  const found = [...checkContainer(machine), ...checkUnit(pid, machine), ...checkLogout(machine)];
  return found.length > 0
    ? found
    : [{ name, state: 'ok', text: 'jobs survive the client and the server' }];
}

function checkContainer(machine: Machine): Finding[] {
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
      hint: 'Keep the home on a volume. The next start reports which jobs were lost.',
    },
  ];
}

/** systemd kills everything left in a service's cgroup when the service stops. */
function checkUnit(pid: string | undefined, machine: Machine): Finding[] {
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
      text: `${who} part of ${leaf}: when it stops, systemd kills the jobs as well`,
      hint: '`errand service install` gives the server its own unit.',
    },
  ];
}

function checkLogout(machine: Machine): Finding[] {
  const lingers = machine.has(`/var/lib/systemd/linger/${machine.userName}`);
  const installed = machine.has(
    join(machine.env.XDG_CONFIG_HOME ?? join(machine.userHome, '.config'), unitPath),
  );
  if (installed && !lingers) {
    return [
      {
        name,
        state: 'note',
        text: 'the service and its jobs end when you log out',
        hint: '`loginctl enable-linger` keeps them running.',
      },
    ];
  }
  if (installed || !killsAtLogout(machine)) return [];
  return [
    {
      name,
      state: 'problem',
      text: 'logind kills your processes at logout (KillUserProcesses=yes)',
      hint: '`loginctl enable-linger` and `errand service install` keep jobs running.',
    },
  ];
}

const unitPath = 'systemd/user/errand.service';

/** The last setting wins: the main file first, then the drop-ins by name. */
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
