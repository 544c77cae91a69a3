// Private addresses that the owner allowed for one job. They are stored with its input and apply to its connections only.
import type { Job } from '../../jobs/job.ts';
import { Browser } from './browser/browser.ts';
import { createFetch } from './fetch/fetcher.ts';
import { Robots } from './fetch/robots.ts';
import type { WebDeps } from './deps.ts';

type Input = Record<string, unknown>;

/** Adds the hosts of the input's URLs as `allowPrivate`. */
export function withAllowed(input: Input): Input {
  const { url, urls } = input;
  const named = [url, ...(Array.isArray(urls) ? (urls as unknown[]) : [])];
  const hosts = named.filter((one) => typeof one === 'string').flatMap(hostOf);
  return { ...input, allowPrivate: [...new Set(hosts)] };
}

/** `host:port`, the format of the setting `egress.allow`. */
export function hostOf(address: string): string[] {
  const url = URL.parse(/^[a-z]+:\/\//i.test(address) ? address : `http://${address}`);
  if (!url) return [];
  return [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`];
}

/** Splits a job's input into the allowed hosts and the rest. */
export function allowedOf({ input }: Pick<Job, 'input'>): { allowed: string[]; input: unknown } {
  const { allowPrivate, ...rest } = (input ?? {}) as Input;
  return Array.isArray(allowPrivate)
    ? { allowed: allowPrivate as string[], input: rest }
    : { allowed: [], input };
}

/** Runs work with dependencies that may reach the allowed hosts, and closes them afterwards. */
export async function withPrivate<T>(
  services: WebDeps,
  allowed: readonly string[],
  work: (services: WebDeps) => Promise<T>,
): Promise<T> {
  if (allowed.length === 0) return work(services);
  const { settings, clock, log, folder } = services;
  const egress = services.egress.allowing(allowed);
  const fetch = createFetch(egress);
  const browser = new Browser({ settings, egress, clock, log, folder });
  const robots = new Robots({ fetch, clock, userAgent: settings.userAgent });
  try {
    return await work({ ...services, egress, fetch, browser, robots });
  } finally {
    await browser.stop();
    await egress.close();
  }
}
