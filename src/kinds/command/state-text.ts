// Describes the state of a command as text. Missing facts are omitted.
import type { KindText } from '../../jobs/kind.ts';
import { durationText, sizeText } from '../../runtime/units.ts';

export function describeState(view: Record<string, unknown>): KindText {
  const { exitCode, signal, outputBytes } = view;
  const expectedMs = numberOf((view.history as { expectedMs?: number } | undefined)?.expectedMs);
  const ageMs = numberOf(view.lastOutputAgeMs);
  const ports = listOf(view.ports);
  const leftBehind = listOf(view.leftBehind);
  const withheld = listOf(view.withheld);
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
      ...(outside === '' ? [] : [`a process outside the job listens on port ${outside}`]),
      ...(taken === ''
        ? []
        : [
            `port ${taken} was in use before the start: it counts only when the job itself listens on it`,
          ]),
      ...(withheld === '' || view.status !== 'failed'
        ? []
        : [`withheld variables of the caller: ${withheld}`]),
      ...(leftBehind === '' ? [] : [`left processes running: ${leftBehind}`]),
    ],
  };
}

const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined;

const listOf = (value: unknown): string => (Array.isArray(value) ? value.join(', ') : '');
