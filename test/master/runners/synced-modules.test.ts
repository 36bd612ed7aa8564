/** The runners `saltutil.sync_*`, which search the file lists for Python modules. */

import test from 'ava';
import type { FileServerBackend } from '#master';
import { maxSliceSteps } from '#runtime';
import { FileServer } from '#salt/file-trees/file-server.ts';
import { saltutilRunner } from '#salt/files/saltutil-runner.ts';
import { slicesOf } from '../../helpers/slices.ts';

/** Environments whose lists were read, in order. */
type Read = string[];

function serverOf(files: readonly string[], read: Read = []): FileServer {
  const backend: FileServerBackend = {
    name: 'roots',
    envs: () => ['base'],
    find: async () => undefined,
    lists: async (saltenv) => {
      read.push(saltenv);
      return { files, dirs: [], emptyDirs: [], links: new Map() };
    },
    close: async () => {},
  };
  return new FileServer([backend]);
}

async function sync(
  fileServer: FileServer,
  fun: string,
  saltenv: readonly string[],
): Promise<unknown> {
  const kwarg = { saltenv: [...saltenv] };
  const table = saltutilRunner({ fileServer });
  return table[`saltutil.${fun}`]?.bind(
    [],
    kwarg,
  )({
    ...{ jid: '1', user: 'u', by: undefined, timeoutSeconds: undefined, emit: () => {} },
    closing: new AbortController().signal,
    asked: { fun: `saltutil.${fun}`, arg: [], kwarg },
    continueElsewhere: () => {},
    atEnd: () => {},
  });
}

test('an environment is read once, however often a call names it', async (t) => {
  const read: Read = [];
  const saltenv = new Array<string>(10_000).fill('base');
  await sync(serverOf(['top.sls'], read), 'sync_all', saltenv);
  await sync(serverOf(['top.sls'], read), 'sync_modules', saltenv);
  t.deepEqual(read, ['base', 'base']);
});

test('a call may name 100 environments', async (t) => {
  const read: Read = [];
  const saltenv = Array.from({ length: 100 }, (_, number) => `env${number}`);
  t.deepEqual(await sync(serverOf([], read), 'sync_modules', saltenv), []);
  t.is(read.length, 100);
  for (const fun of ['sync_all', 'sync_modules']) {
    await t.throwsAsync(sync(serverOf([], read), fun, [...saltenv, 'one-more']), {
      code: 'ERR_ARGS',
      message: /at most 100 environments/,
    });
  }
  t.is(read.length, 100);
});

test.serial('many files are searched in slices', async (t) => {
  const files = Array.from({ length: 100_000 }, (_, number) => `_modules/${number}.txt`);
  const slices = await slicesOf(() => sync(serverOf(files), 'sync_all', ['base']));
  t.true(slices.length > 5, `${slices.length}`);
  t.true(slices.every((steps) => steps <= maxSliceSteps + 10));
});

test('the error names the first five modules, by kind, and counts the others', async (t) => {
  const files = ['_grains/g.py', '_modules/a.py', '_modules/a.txt', '_modules/b.so', 'a.py'];
  const server = serverOf([...files, ...['c', 'd', 'e', 'f'].map((it) => `_modules/${it}.zip`)]);
  const named = '_modules/a.py, _modules/b.so, _modules/c.zip, _modules/d.zip, _modules/e.zip';
  for (const [fun, more] of [
    ['sync_all', 2],
    ['sync_modules', 1],
  ] as const) {
    const error = await t.throwsAsync(sync(server, fun, ['base']), { code: 'ERR_NOT_SERVED' });
    t.true(error?.message.includes(`(${named} and ${more} more)`), error?.message);
  }
});
