// Describes this machine to workers, in the variables that RunPod sets in its containers.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { join } from 'node:path';

interface Machine {
  /** Model names of the GPUs, ordered by number. */
  gpus: readonly string[];
  cpus: number;
  memoryGb: number;
  hostname: string;
}

const bytesPerGb = 1024 ** 3;
/** Where NVIDIA's driver lists its devices: one folder per GPU, named by its bus address. */
const gpuFolder = '/proc/driver/nvidia/gpus';

let known: Machine | undefined;

/** Cached, because hardware does not change while a server runs. */
export function thisMachine(): Machine {
  known ??= {
    gpus: gpusIn(gpuFolder),
    cpus: availableParallelism(),
    memoryGb: Math.floor(totalmem() / bytesPerGb),
    hostname: hostname(),
  };
  return known;
}

export function gpusIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .toSorted()
    .map((name) => modelIn(join(folder, name, 'information')));
}

/** `own` holds the variables of the endpoint. They may limit the GPUs, and they take precedence. */
export function machineVariables(
  { gpus, cpus, memoryGb, hostname: host }: Machine,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const visible = own.CUDA_VISIBLE_DEVICES;
  const used = visible === undefined ? gpus : visibleGpus(gpus, visible);
  return {
    RUNPOD_GPU_COUNT: String(used.length),
    ...(used[0] === undefined ? {} : { RUNPOD_GPU_TYPE_ID: used[0] }),
    RUNPOD_CPU_COUNT: String(cpus),
    RUNPOD_MEM_GB: String(memoryGb),
    RUNPOD_POD_HOSTNAME: host,
    ...Object.fromEntries(Object.entries(own).filter(([name]) => machineNames.has(name))),
  };
}

const machineNames = new Set([
  'RUNPOD_GPU_COUNT',
  'RUNPOD_GPU_TYPE_ID',
  'RUNPOD_CPU_COUNT',
  'RUNPOD_MEM_GB',
  'RUNPOD_POD_HOSTNAME',
]);

/** Follows CUDA: numbers up to the first one that does not exist. Identifiers (GPU-…) count as one GPU each. */
function visibleGpus(gpus: readonly string[], visible: string): string[] {
  const used: string[] = [];
  for (const name of visible.split(',').map((part) => part.trim())) {
    const gpu = /^\d+$/.test(name) ? gpus[Number(name)] : /^(GPU|MIG)-/.test(name) && gpus[0];
    if (!gpu) break;
    used.push(gpu);
  }
  return used;
}

function modelIn(file: string): string {
  try {
    return /^Model:\s*(.+)$/m.exec(readFileSync(file, 'utf8'))?.[1]?.trim() ?? unknownGpu;
  } catch {
    return unknownGpu;
  }
}

const unknownGpu = 'unknown';
