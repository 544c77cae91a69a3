// The environment of a payload: what the caller's own shell says about tools and language, values that keep
// programs from asking questions nobody hears, what the caller gave, and named secrets. Only names that are known
// not to be secret are ever taken over by themselves, because what is taken over is stored with the job.
import { byName, setOwn } from '../../runtime/by-name.ts';
import type { Origin } from '../../operation.ts';

/** How the caller works: paths, language, tool homes. A last * stands for any ending. */
const plainNames = [
  'PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TMPDIR VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV',
  'PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR RBENV_ROOT',
  'JAVA_HOME GOPATH GOROOT CARGO_HOME RUSTUP_HOME DENO_DIR BUN_INSTALL PNPM_HOME ANDROID_HOME ANDROID_SDK_ROOT',
  'XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY SSH_AUTH_SOCK',
  'LD_LIBRARY_PATH PKG_CONFIG_PATH CUDA_HOME CUDA_VISIBLE_DEVICES NIX_PATH DOCKER_HOST',
].flatMap((line) => line.split(' '));

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

/** What is stored with the job: plain names of the caller, else of this server. */
export function callerEnvironment(
  origin: Origin | undefined,
  serverValue: (name: string) => string | undefined,
): Record<string, string> {
  const env: Record<string, string> = {};
  if (origin?.env) {
    for (const [name, value] of Object.entries(origin.env))
      if (isPlain(name)) setOwn(env, name, value);
  } else {
    for (const name of plainNames) {
      const value = name.endsWith('*') ? undefined : serverValue(name);
      if (value !== undefined) env[name] = value;
    }
    delete env.VIRTUAL_ENV;
  }
  env.PATH ??= pathFallback;
  return env;
}

export interface EnvironmentParts {
  caller: Record<string, string>;
  given: Record<string, string>;
  secrets: Record<string, string>;
  safe: boolean;
  tty: boolean;
  jobId: string;
  /** `traceparent` of the attempt, for programs that trace themselves. */
  trace?: string | undefined;
  passes(name: string): boolean;
}

export function payloadEnvironment(parts: EnvironmentParts): Record<string, string> {
  const terminal = parts.tty ? { TERM: 'xterm-256color' } : {};
  const env = {
    ...(parts.safe && !parts.tty ? safeValues : {}),
    ...parts.caller,
    ...terminal,
    ...parts.given,
    ...parts.secrets,
    ...(parts.trace === undefined ? {} : { TRACEPARENT: parts.trace }),
    ERRAND_JOB_ID: parts.jobId,
  };
  return Object.fromEntries(Object.entries(env).filter(([name]) => parts.passes(name)));
}

function isPlain(name: string): boolean {
  return plainNames.some((plain) =>
    plain.endsWith('*') ? name.startsWith(plain.slice(0, -1)) : name === plain,
  );
}
