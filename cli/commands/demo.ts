import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';

/** Defines `saltbridge demo`, which runs a master with three minions. */
export function defineDemo(command: Command): void {
  command.action(async () => {
    // Load this module on demand, because it includes all code that serves minions.
    const { createDemoOutput, runDemo } = await import('../demo.ts');
    // The name is short, because the length of the path of a Unix socket is limited.
    const directory = await mkdtemp(path.join(tmpdir(), 'sb-'));
    try {
      await runDemo(createDemoOutput(process.stdout, untilInterrupted), directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
}

function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 60_000);
    const end = (): void => {
      clearInterval(keepAlive);
      resolve();
    };
    process.once('SIGINT', end);
    process.once('SIGTERM', end);
  });
}
