// The variables that describe the machine in RunPod's containers.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname, availableParallelism } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gpusIn, machineVariables } from '../../../../src/kinds/endpoint/workers/machine.ts';
import { startEndpoints } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';

const names = ['RUNPOD_GPU_COUNT', 'RUNPOD_CPU_COUNT', 'RUNPOD_MEM_GB', 'RUNPOD_POD_HOSTNAME'];

test("a worker gets RunPod's variables about this machine", async (t) => {
  const server = await startEndpoints(t);
  const file = join(tempFolder(t), 'env.mjs');
  writeFileSync(
    file,
    `export default () => ${JSON.stringify(names)}.map((name) => process.env[name]);`,
  );
  await server.save('env', { recipe: { module: file }, env: { RUNPOD_MEM_GB: '3' } });
  const { output } = await server.ended('env', await server.run('env', {}));
  const [gpus, cpus, memory, host] = output as string[];
  assert.match(gpus!, /^\d+$/);
  assert.deepEqual(
    [cpus, memory, host],
    [String(availableParallelism()), '3', hostname()],
    "the endpoint's own values win",
  );
});

test('GPUs are counted as the driver lists them and CUDA_VISIBLE_DEVICES limits them', (t) => {
  const folder = tempFolder(t);
  for (const name of ['0000:01:00.0', '0000:02:00.0']) {
    mkdirSync(join(folder, name));
    const text = 'Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 98\n';
    writeFileSync(join(folder, name, 'information'), text);
  }
  const gpus = gpusIn(folder);
  assert.deepEqual(gpus, ['NVIDIA GeForce RTX 4090', 'NVIDIA GeForce RTX 4090']);
  assert.deepEqual(gpusIn(join(folder, 'absent')), []);
  const machine = { gpus, cpus: 8, memoryGb: 62, hostname: 'box' };
  const counted = (own: Record<string, string>) => {
    const { RUNPOD_GPU_COUNT: count, RUNPOD_GPU_TYPE_ID: type } = machineVariables(machine, own);
    return [count, type];
  };
  assert.deepEqual(counted({}), ['2', 'NVIDIA GeForce RTX 4090']);
  assert.deepEqual(counted({ CUDA_VISIBLE_DEVICES: '1' }), ['1', 'NVIDIA GeForce RTX 4090']);
  assert.deepEqual(counted({ CUDA_VISIBLE_DEVICES: '0,7,1' }), ['1', 'NVIDIA GeForce RTX 4090']);
  assert.deepEqual(counted({ CUDA_VISIBLE_DEVICES: '' }), ['0', undefined]);
  assert.deepEqual(counted({ CUDA_VISIBLE_DEVICES: 'GPU-1a2b' }), ['1', 'NVIDIA GeForce RTX 4090']);
});
