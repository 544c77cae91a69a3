// Named secrets of jobs: values come with the call that starts a job, or from the home's own env file, and live in
// memory only. After a restart the memory is gone; a retry then needs the env file, or ends as secretMissing.
import { ownValue, setOwn } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';

/** Jobs whose values are remembered; the oldest go first. */
const jobsMax = 5000;

export class Secrets {
  private readonly fallback: (name: string) => string | undefined;
  private readonly byJob = new Map<string, Record<string, string>>();

  constructor(fallback: (name: string) => string | undefined) {
    this.fallback = fallback;
  }

  /** At submit: every name must have a value now. */
  values(names: readonly string[], caller: Record<string, string> | undefined) {
    const values: Record<string, string> = {};
    for (const name of names) {
      const value = (caller && ownValue(caller, name)) ?? this.fallback(name);
      if (value === undefined) throw missing(name);
      setOwn(values, name, value);
    }
    return values;
  }

  keep(jobId: string, values: Record<string, string>): void {
    if (Object.keys(values).length === 0) return;
    this.byJob.set(jobId, values);
    if (this.byJob.size > jobsMax) this.byJob.delete(this.byJob.keys().next().value!);
  }

  /** For a job that repeats an earlier one: values of the caller, else those of the earlier job. */
  again(jobId: string, names: readonly string[], caller: Record<string, string> | undefined) {
    return this.values(names, { ...this.byJob.get(jobId), ...caller });
  }

  /** For an attempt: all of them or none. */
  take(jobId: string, names: readonly string[]): Record<string, string> {
    return this.values(names, this.byJob.get(jobId));
  }
}

function missing(name: string): AppError {
  return new AppError('secretMissing', `The secret ${name} has no value.`, {
    hint: `Set ${name} in the environment of the program that calls, or in the file \`env\` of the home (mode 0600).`,
  });
}
