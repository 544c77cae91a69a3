// The detached POSIX shell program that runs every payload. It outlives the server, so it is passed as text (an upgrade may
// remove our files) and stores everything it knows in the attempt folder. A server must understand the files of wrappers
// that an earlier version started.
//
// - `claim` is created exclusively before the payload starts. A recovering server voids an attempt by creating the same
// file, so exactly one of them wins. It contains the pid, the boot id and the kernel's stat line of the process.
// - `exit` is created at full size before the start and overwritten in place: a full disk cannot lose the exit code.
// The shell prints its message about a signal ("Terminated") before the code, which distinguishes `exit 143` from
// SIGTERM. The record counts only if it ends with the line `end`.
// - Signals are caught (not ignored, because that would be inherited), so that the wrapper lives to write the record.
// - Only the owner can read its files. The payload gets the usual file mode mask.
// - The process that holds the input open is killed with SIGKILL, which a shell that has just forked cannot swallow.
// - The payload runs in the foreground, because a shell starts background children with SIGINT ignored and without stdin.
import { shellQuote } from '../../../runtime/shell.ts';

const wrapperScript = `dir=$1 input=$2 mask=$3
shift 3
umask 077
trap : HUP INT QUIT TERM USR1 USR2 PIPE ALRM
set -C
boot= stat=
if [ -r /proc/$$/stat ]; then
  read -r stat < /proc/$$/stat
  read -r boot < /proc/sys/kernel/random/boot_id
else
  stat=$(ps -o lstart= -p $$)
  boot=$(sysctl -n kern.boottime)
fi
{ printf '%s\\n' "$$" "$boot" "$stat" end > "$dir/claim"; } 2>/dev/null || exit 125
if [ "$input" = open ]; then
  PATH="/usr/bin:/bin:\${PATH-}" sleep 2147483647 8<>"$dir/stdin" >/dev/null 2>&1 &
  holder=$!
  echo "$holder" > "$dir/holder"
  exec < "$dir/stdin"
fi
umask "$mask"
exec 3>&2 2<>"$dir/exit"
( exec "$@" 2>&3 3>&- )
code=$?
{ printf '\\ncode %s\\n' "$code"; times; echo end; } >&2
[ -z "\${holder-}" ] || kill -s KILL "$holder"
exit 0
`;

/** Size of the record: a message of the shell, the code, two lines of CPU times. */
export const exitRecordBytes = 512;

/** Arguments for `sh -c`, with the payload last. */
export function wrapperArgs(folder: string, input: 'none' | 'open', argv: readonly string[]) {
  return ['-c', wrapperScript, 'errand-job', folder, input, mask(), ...argv];
}

/** The same as a script file, because a terminal helper accepts a command line instead of arguments. */
export function wrapperFile(folder: string, argv: readonly string[], size: TerminalSize): string {
  const words = [folder, 'none', mask(), ...argv].map(shellQuote).join(' ');
  return `PATH="/usr/bin:/bin:\${PATH-}" stty rows ${size.rows} cols ${size.cols} 2>/dev/null\nset -- ${words}\n${wrapperScript}`;
}

const mask = (): string => process.umask().toString(8).padStart(4, '0');

export interface TerminalSize {
  cols: number;
  rows: number;
}
