/** Runs the hostile-input matrix in a process of its own. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { MatrixPlan, MatrixReport } from './matrix.ts';

const program = fileURLToPath(new URL('./program.ts', import.meta.url));

/** Plan of a process. */
export interface ProcessPlan extends MatrixPlan {
  /** Whether time and memory are measured, and blocks are not counted. Default: false. */
  readonly measuresTime?: boolean;
}

/**
 * Runs the matrix. Problems are printed when they are found.
 * @throws Error if the process fails
 */
export async function runMatrixProcess(plan: ProcessPlan): Promise<MatrixReport> {
  // Functions from the compile cache are not counted.
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
  const child = spawn(process.execPath, ['--expose-gc', program, JSON.stringify(plan)], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const text = Buffer.concat(await child.stdout.toArray()).toString();
  const [code] = await exited;
  if (code !== 0) throw new Error(`the matrix ended with the exit code ${code}`);
  return JSON.parse(text);
}
