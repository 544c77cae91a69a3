// The detached POSIX shell program around every payload. It outlives the server, so it is given as text (an upgrade
// may remove our files) and keeps everything it knows in the attempt's folder.
//
// - `claim` is created exclusively before the payload starts; a recovering server voids an attempt with the same
//   file, so exactly one of them wins. It holds pid, boot id and the kernel's own line about the process.
// - `exit` exists and is filled before the start, and is overwritten in place: a full disk cannot lose the exit code.
//   The shell's own remark about a signal ("Terminated") lands in front of the code: that is how `exit 143` and
//   SIGTERM are told apart. The record counts only with its last line, `end`.
// - Signals are caught (not ignored: that would be inherited), so that the wrapper lives to write the record.
// - Its own files are for the owner alone; the payload gets the file mode mask it would have had.
// - The holder of the input is ended by the one signal that a shell which has just forked cannot swallow.
// - The payload runs in the foreground: a shell gives background children ignored SIGINT and no stdin.
import { quoted } from '../../../runtime/shell.ts';

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

/** Room for the record: a remark of the shell, the code, two lines of CPU times. */
export const exitRecordBytes = 512;

/** Words for `sh -c`, with the payload last. */
export function wrapperArgs(folder: string, input: 'none' | 'open', argv: readonly string[]) {
  return ['-c', wrapperScript, 'errand-job', folder, input, mask(), ...argv];
}

/** The same as a script file: a terminal's helper program takes a command line, not words. */
export function wrapperFile(folder: string, argv: readonly string[], size: TerminalSize): string {
  const words = [folder, 'none', mask(), ...argv].map(quoted).join(' ');
  return `PATH="/usr/bin:/bin:\${PATH-}" stty rows ${size.rows} cols ${size.cols} 2>/dev/null\nset -- ${words}\n${wrapperScript}`;
}

const mask = (): string => process.umask().toString(8).padStart(4, '0');

export interface TerminalSize {
  cols: number;
  rows: number;
}
