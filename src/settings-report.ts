// The effective settings of a home with the source of each value, for `errand config show`.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { kinds } from './app.ts';
import { environmentSettings, loadConfig, type Config } from './config.ts';
import type { SettingsReport } from './interfaces/cli/program.ts';
import { isRecord } from './runtime/json.ts';

type Env = Record<string, string | undefined>;

/** Settings that may contain a secret. */
const secretForm = /secret|password|token|private|(^|\.)(api)?key$/i;

export function settingsReport(home: string, env: Env): SettingsReport {
  const config = loadConfig({ home, sections: kinds }, env);
  const file = join(config.home, 'config.json');
  const exists = existsSync(file);
  const written = exists ? flat(JSON.parse(readFileSync(file, 'utf8')) as object) : new Map();
  const variables = environmentSettings(env);
  const sourceOf = (name: string): string => {
    const variable = variables.get(name);
    if (variable !== undefined) return variable;
    const isWritten = [...written.keys()].some((key) => key === name || key.startsWith(`${name}.`));
    return isWritten ? 'config.json' : 'default';
  };
  const settings = [...flat(effective(config))].map(([name, value]) => ({
    name,
    value: shown(name, value),
    source: sourceOf(name),
  }));
  return { home: config.home, file, exists, settings: [...storeSetting(config, env), ...settings] };
}

function effective(config: Config): object {
  const { server, http, retention, egress, cluster, tracing, sections } = config;
  return { server, http, retention, egress, cluster, tracing, ...sections };
}

function storeSetting({ store }: Config, env: Env): SettingsReport['settings'] {
  const source =
    store === undefined ? 'default' : env.ERRAND_STORE === undefined ? 'env' : 'ERRAND_STORE';
  return [
    { name: 'store', value: store === undefined ? 'sqlite' : withoutPassword(store), source },
  ];
}

/** Flattens `{ server: { port: 1 } }` to `server.port` → 1. Lists are values. */
function flat(value: object, prefix = ''): Map<string, unknown> {
  return new Map(
    Object.entries(value).flatMap(([name, part]): [string, unknown][] =>
      isRecord(part) && Object.keys(part).length > 0
        ? [...flat(part, `${prefix}${name}.`)]
        : [[`${prefix}${name}`, part]],
    ),
  );
}

function shown(name: string, value: unknown): string {
  if (secretForm.test(name) && value !== undefined && value !== null && value !== '') return '***';
  if (typeof value === 'string') return withoutPassword(value);
  return value === undefined ? 'not set' : withoutPassword(JSON.stringify(value));
}

/** Masks the password in an address: `postgres://user:***@host/database`. */
const withoutPassword = (text: string): string =>
  text.replaceAll(/(\/\/[^/:@\s"]*):[^@/\s"]+@/g, '$1:***@');
