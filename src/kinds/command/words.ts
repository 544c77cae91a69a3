// What is known of a command, in words; whatever is missing is not said.
import type { Words } from '../../jobs/kind.ts';
import { durationText, sizeText } from '../../runtime/units.ts';

export function commandWords(view: Record<string, unknown>): Words {
  const { exitCode, signal, outputBytes } = view;
  const expectedMs = numberOf((view.history as { expectedMs?: number } | undefined)?.expectedMs);
  const ageMs = numberOf(view.lastOutputAgeMs);
  const ports = listOf(view.ports);
  const leftBehind = listOf(view.leftBehind);
  const outside = listOf(view.outsidePorts);
  const taken = listOf(view.takenPorts);
  return {
    state: [
      ...(exitCode === undefined || exitCode === null ? [] : [`exit code ${String(exitCode)}`]),
      ...(signal ? [`signal ${String(signal)}`] : []),
    ],
    facts: [
      ...(expectedMs === undefined ? [] : [`usually ${durationText(expectedMs)}`]),
      ...(view.slowerThanUsual === true ? ['slower than usual'] : []),
      ...(numberOf(outputBytes) === undefined
        ? []
        : [`${sizeText(outputBytes as number)} of output`]),
      ...(ageMs === undefined || outputBytes === 0 ? [] : [`last ${durationText(ageMs)} ago`]),
      ...(view.waitingForInput === true ? ['waits for input'] : []),
      ...(ports === '' ? [] : [`listens on port ${ports}`]),
      ...(outside === '' ? [] : [`a process outside of it listens on port ${outside}`]),
      ...(taken === ''
        ? []
        : [`port ${taken} was taken before it began: it counts when the job itself listens on it`]),
      ...(leftBehind === '' ? [] : [`left processes running: ${leftBehind}`]),
    ],
  };
}

const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined;

const listOf = (value: unknown): string => (Array.isArray(value) ? value.join(', ') : '');
