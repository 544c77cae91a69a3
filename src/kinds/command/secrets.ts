// Named secrets of jobs. Values come from the submitting call or from the home's env file, and are kept only in memory.
// After a restart they are gone: a retry then needs the env file, or fails with secretMissing.
import { ownValue, setOwn } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';

/** Maximum jobs whose values are kept in memory. The oldest are removed first. */
const maxJobs = 5000;

export class Secrets {
  private readonly fallback: (name: string) => string | undefined;
  private readonly byJob = new Map<string, Record<string, string>>();

  constructor(fallback: (name: string) => string | undefined) {
    this.fallback = fallback;
  }

  /** At submission: every name must have a value. */
  values(names: readonly string[], caller: Record<string, string> | undefined) {
    const values: Record<string, string> = {};
    for (const name of names) {
      const value = (caller && ownValue(caller, name)) ?? this.fallback(name);
      if (value === undefined) throw secretMissing(name);
      setOwn(values, name, value);
    }
    return values;
  }

  store(jobId: string, values: Record<string, string>): void {
    if (Object.keys(values).length === 0) return;
    this.byJob.set(jobId, values);
    if (this.byJob.size > maxJobs) this.byJob.delete(this.byJob.keys().next().value!);
  }

  /** For a rerun: values of the caller, otherwise those of the earlier job. */
  valuesForRerun(
    jobId: string,
    names: readonly string[],
    caller: Record<string, string> | undefined,
  ) {
    return this.values(names, { ...this.byJob.get(jobId), ...caller });
  }

  /** Values of a job that are still in memory. */
  knownValues(jobId: string): string[] {
    return Object.values(this.byJob.get(jobId) ?? {});
  }

  /** For an attempt. Throws if any value is missing. */
  valuesForAttempt(jobId: string, names: readonly string[]): Record<string, string> {
    return this.values(names, this.byJob.get(jobId));
  }
}

function secretMissing(name: string): AppError {
  return new AppError('secretMissing', `The secret ${name} has no value.`, {
    hint: `Set ${name} in the environment of the calling program, or in the file \`env\` of the home folder (mode 0600).`,
  });
}
