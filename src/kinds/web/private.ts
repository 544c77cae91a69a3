// Private addresses that the owner allowed for one job: kept with its input, reached over connections of that job alone.
import type { Job } from '../../jobs/job.ts';
import { Browser } from './browser/browser.ts';
import { createFetch } from './fetch/fetcher.ts';
import { Robots } from './fetch/robots.ts';
import type { Services } from './services.ts';

type Input = Record<string, unknown>;

/** The hosts of the addresses that a call names, beside its input. */
export function withAllowed(input: Input): Input {
  const { url, urls } = input;
  const named = [url, ...(Array.isArray(urls) ? (urls as unknown[]) : [])];
  const hosts = named.filter((one) => typeof one === 'string').flatMap(hostOf);
  return { ...input, allowPrivate: [...new Set(hosts)] };
}

/** `host:port`, as the setting `egress.allow` has it. */
export function hostOf(address: string): string[] {
  const url = URL.parse(/^[a-z]+:\/\//i.test(address) ? address : `http://${address}`);
  if (!url) return [];
  return [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`];
}

/** What was allowed for a job, and its input without that. */
export function allowedOf({ input }: Pick<Job, 'input'>): { allowed: string[]; input: unknown } {
  const { allowPrivate, ...rest } = (input ?? {}) as Input;
  return Array.isArray(allowPrivate)
    ? { allowed: allowPrivate as string[], input: rest }
    : { allowed: [], input };
}

/** The services of a job with more rights than others; they end with the work. */
export async function withPrivate<T>(
  services: Services,
  allowed: readonly string[],
  work: (services: Services) => Promise<T>,
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
