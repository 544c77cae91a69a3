// Builds the environment of a payload: the caller's environment without secrets, values that prevent interactive
// prompts, variables from the call, and named secrets.
import { byName, setOwn } from '../../runtime/by-name.ts';

/** Variables passed from the server when the caller has no environment here: paths, language, tool folders. */
const serverNames = [
  'PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_ALL TZ TMPDIR CONDA_PREFIX CONDA_DEFAULT_ENV',
  'PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR RBENV_ROOT',
  'JAVA_HOME GOPATH GOROOT CARGO_HOME RUSTUP_HOME DENO_DIR BUN_INSTALL PNPM_HOME ANDROID_HOME ANDROID_SDK_ROOT',
  'XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY SSH_AUTH_SOCK',
  'LD_LIBRARY_PATH PKG_CONFIG_PATH CUDA_HOME CUDA_VISIBLE_DEVICES NIX_PATH DOCKER_HOST',
].flatMap((line) => line.split(' '));

/** Variables that describe the calling process, not its user's setup. */
const processNames = matcherOf(
  [
    '_ SHLVL PWD OLDPWD SHELLOPTS BASHOPTS ERRAND_ATTEMPT ERRAND_JOB_ID ERRAND_REEXEC NODE_CHANNEL_FD',
    'NODE_CHANNEL_SERIALIZATION_MODE NODE_UNIQUE_ID LISTEN_PID LISTEN_FDS LISTEN_FDNAMES NOTIFY_SOCKET',
    'WATCHDOG_PID WATCHDOG_USEC',
  ].flatMap((line) => line.split(' ')),
);

/** Variables that `npx errand` and npm scripts add for the program they run. */
const npmNames = matcherOf([
  'INIT_CWD',
  'npm_lifecycle_*',
  'npm_package_*',
  'npm_command',
  'npm_execpath',
  'npm_node_execpath',
  'npm_config_local_prefix',
  'npm_config_user_agent',
]);

/** Variables of the caller's terminal. A job has its own terminal, or none. */
const terminalNames = ['COLUMNS', 'LINES', 'TERMCAP'];

const safeValues: Record<string, string> = byName({
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  GH_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: 'cat',
  GIT_EDITOR: 'true',
  GIT_SEQUENCE_EDITOR: 'true',
  GIT_MERGE_AUTOEDIT: 'no',
  GIT_TERMINAL_PROMPT: '0',
  EDITOR: 'true',
  VISUAL: 'true',
  DEBIAN_FRONTEND: 'noninteractive',
  npm_config_yes: 'true',
  PIP_NO_INPUT: '1',
  PYTHONUNBUFFERED: '1',
  TERM: 'dumb',
});

export const pathFallback = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

interface CallerEnvironment {
  values: Record<string, string>;
  /** Names of the caller's variables that the job does not receive. */
  withheld: string[];
}

export interface Withholding {
  /** Name patterns to withhold, and name patterns to pass even if `withhold` matches. */
  withhold: readonly string[];
  pass: readonly string[];
  /** False for names that the policy never passes. */
  passes(name: string): boolean;
}

/** Selects the variables of the calling program that a job receives. */
export function callerEnvironment(
  env: Readonly<Record<string, string>>,
  rules: Withholding,
): CallerEnvironment {
  const isSecret = secretNames(rules);
  const values: Record<string, string> = {};
  const withheld: string[] = [];
  const inNpm = Object.hasOwn(env, 'npm_execpath');
  for (const [name, value] of Object.entries(env)) {
    if (name === '' || name.includes('=') || `${name}${value}`.includes('\0')) continue;
    if (processNames(name) || (inNpm && npmNames(name))) continue;
    if (isSecret(name) || !rules.passes(name)) withheld.push(name);
    else setOwn(values, name, value);
  }
  values.PATH ??= pathFallback;
  return { values, withheld: withheld.toSorted() };
}

/** Matches variables that hold a secret. A path or file that contains a secret is not one. */
export function secretNames({
  withhold,
  pass,
}: Pick<Withholding, 'withhold' | 'pass'>): (name: string) => boolean {
  const isWithheld = matcherOf(withhold);
  const isPassed = matcherOf(pass);
  return (name) => isWithheld(name) && !isPassed(name) && !/_(?:FILE|PATH|DIR)$/i.test(name);
}

/** For jobs whose caller has no environment on this node: HTTP callers, or callers on another node. */
export function serverEnvironment(
  serverValue: (name: string) => string | undefined,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of serverNames) {
    const value = serverValue(name);
    if (value !== undefined) env[name] = value;
  }
  env.PATH ??= pathFallback;
  return env;
}

interface EnvironmentParts {
  caller: Record<string, string>;
  given: Record<string, string>;
  secrets: Record<string, string>;
  safe: boolean;
  tty: boolean;
  cwd: string;
  jobId: string;
  /** `traceparent` of the attempt, for programs that trace themselves. */
  trace?: string | undefined;
  passes(name: string): boolean;
}

export function payloadEnvironment(parts: EnvironmentParts): Record<string, string> {
  const { caller, tty } = parts;
  const own = tty
    ? Object.entries(caller).filter(([name]) => !terminalNames.includes(name))
    : Object.entries(caller);
  const env = {
    ...Object.fromEntries(own),
    ...(parts.safe && !tty ? safeValues : {}),
    ...(tty ? { TERM: 'xterm-256color' } : {}),
    PWD: parts.cwd,
    ...parts.given,
    ...parts.secrets,
    ...(parts.trace === undefined ? {} : { TRACEPARENT: parts.trace }),
    ERRAND_JOB_ID: parts.jobId,
  };
  return Object.fromEntries(Object.entries(env).filter(([name]) => parts.passes(name)));
}

/** Patterns are names in which `*` matches any characters. Case-insensitive. */
function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  if (patterns.length === 0) return () => false;
  const parts = patterns.map((pattern) => pattern.split('*').map(RegExp.escape).join('.*'));
  const expression = new RegExp(`^(?:${parts.join('|')})$`, 'is');
  return (name) => expression.test(name);
}
