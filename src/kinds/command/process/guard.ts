// Runs one guard per home, which enforces timeouts and output limits while no server runs. The guard is a sleeping shell:
// it wakes every few seconds, checks the server's heartbeat file, and checks limits only if the heartbeat is stale. If a limit
// is exceeded, it starts `guard-main`, which ends the attempt with the same code as the server.
// The guard exits when there is no server and nothing runs.
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { textOf } from './folder.ts';
import {
  bootId,
  isAlive,
  signalProcess,
  startOf,
  type Identity,
} from '../../../runtime/process-identity.ts';

interface GuardSettings {
  /** Check interval. Without a server, a limit is exceeded by at most this much plus the time to end a process tree. */
  everySeconds: number;
  /** A heartbeat older than this means that the server is dead. */
  staleSeconds: number;
  graceMs: number;
}

/**
 * A long pause between two checks means that the machine was suspended. It is recorded, because timeouts count awake time.
 * `find -newermt` is not portable, so the heartbeat age is computed from a number inside the file.
 * A process runs if the pid in the claim exists and has the start time in the claim. Ended attempts may still be listed.
 * Processes that an ended attempt left running exist as long as their process group does.
 */
const guardScript = `home=$1 every=$2 stale=$3 node=$4 main=$5 grace=$6
trap 'exit 0' TERM
runs() {
  [ -r "$folder/claim" ] || return
  { read -r pid; read -r boot; read -r claimed; } < "$folder/claim"
  case $mode in left-*) kill -s 0 -- "-$pid" 2>/dev/null; return ;; esac
  kill -0 "$pid" 2>/dev/null || return
  [ -r "/proc/$pid/stat" ] || return 0
  read -r stat < "/proc/$pid/stat"
  set -f -- $claimed; begun=\${22}
  set -f -- $stat; [ "$begun" = "\${22}" ]
}
last=$(date +%s)
while :; do
  sleep "$every" &
  wait $!
  [ -r "$home/running.list" ] || exit 0
  now=$(date +%s)
  [ $((now - last)) -le $((every * 2 + 15)) ] || echo "$last $((now - last - every))" >> "$home/gaps"
  last=$now
  beat=0
  [ ! -r "$home/heartbeat" ] || read -r beat < "$home/heartbeat"
  [ $((now - beat)) -gt "$stale" ] || continue
  alive=0
  [ ! -r "$home/alive" ] || read -r alive < "$home/alive"
  room= sum=0 due= any=
  [ ! -r "$home/room" ] || read -r room < "$home/room"
  while read -r deadline bytes mode since attempt folder; do
    runs || continue
    any=1
    case $mode in
      *+*) [ $((now - alive)) -le "\${mode#*+}" ] || { due=1; break; } ;;
    esac
    if [ "$deadline" -gt 0 ] && [ "$now" -ge "$deadline" ]; then due=1; break; fi
    [ "$bytes" -gt 0 ] || continue
    size=0
    for log in "$folder/out" "$folder/err"; do
      [ ! -f "$log" ] || size=$((size + $(wc -c < "$log")))
    done
    dropped=0
    [ ! -r "$folder/dropped" ] || read -r dropped < "$folder/dropped"
    if [ $((size - dropped)) -gt "$bytes" ]; then due=1; break; fi
    case $mode in left-*) ;; *) sum=$((sum + size - dropped)) ;; esac
  done < "$home/running.list"
  [ -n "$any" ] || exit 0
  [ -z "$room" ] || [ "$sum" -le "$room" ] || due=1
  [ -z "$due" ] || "$node" "$main" "$home" "$grace" >/dev/null 2>&1
done
`;

const aliveFile = 'alive';
const roomFile = 'room';

/** When a server last ran; 0 if unknown. */
export const aliveAt = (commandsFolder: string): number =>
  Number(textOf(join(commandsFolder, aliveFile)) ?? 0) * 1000;

/** Output bytes that running jobs may have in total; infinite if unknown. */
export const roomBytes = (commandsFolder: string): number =>
  Number(textOf(join(commandsFolder, roomFile))?.trim() || Infinity);

export class Guard {
  private readonly folder: string;
  private readonly settings: GuardSettings;

  constructor(commandsFolder: string, settings: GuardSettings) {
    this.folder = commandsFolder;
    this.settings = settings;
    mkdirSync(commandsFolder, { recursive: true, mode: 0o700 });
  }

  /**
   * Records that a server runs, and how many output bytes running jobs may have in total. The guard reads the numbers;
   * people see the file time. A server that stops removes its heartbeat, but keeps the time at which it was last alive.
   */
  beat(now: number, roomBytes: number): void {
    writeFileSync(join(this.folder, roomFile), `${roomBytes}\n`, { mode: 0o600 });
    for (const name of ['heartbeat', aliveFile]) {
      const path = join(this.folder, name);
      writeFileSync(path, `${Math.floor(now / 1000)}\n`, { mode: 0o600 });
      utimesSync(path, now / 1000, now / 1000);
    }
  }

  /** Starts the guard unless it is running. Called with every heartbeat. */
  ensure(): void {
    const known = this.read();
    if (known && isAlive(known)) return;
    const { everySeconds, staleSeconds, graceMs } = this.settings;
    const main = fileURLToPath(
      new URL(`./guard-main${extname(import.meta.filename)}`, import.meta.url),
    );
    const words = [everySeconds, staleSeconds, process.execPath, main, graceMs].map(String);
    const args = ['-c', guardScript, 'errand-guard', this.folder, ...words];
    const child = spawn('/bin/sh', args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' },
      detached: true,
      stdio: 'ignore',
    });
    child.on('error', () => {});
    child.unref();
    if (child.pid === undefined) return;
    const identity = { pid: child.pid, start: startOf(child.pid) ?? '', bootId: bootId() };
    writeFileSync(this.file, JSON.stringify(identity), { mode: 0o600 });
  }

  /** A stopping server leaves the guard running if jobs run; otherwise it stops the guard as well. */
  release(anythingRuns: boolean): void {
    rmSync(join(this.folder, 'heartbeat'), { force: true });
    const known = this.read();
    if (anythingRuns || !known) return;
    signalProcess(known, 'SIGTERM');
    rmSync(this.file, { force: true });
  }

  get identity(): Identity | undefined {
    return this.read();
  }

  private get file(): string {
    return join(this.folder, 'guard.json');
  }

  private read(): Identity | undefined {
    try {
      return JSON.parse(textOf(this.file) ?? 'null') ?? undefined;
    } catch {
      return undefined;
    }
  }
}
