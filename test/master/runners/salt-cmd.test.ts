/** The work of `salt.cmd`: functions run on a thread for the caller, and searches take turns. */

import test from 'ava';
import type { AuditRequester, FileLists } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { saltLimits } from '#salt/limits.ts';
import type { CallTask } from '#salt/render/call-function.ts';
import { PillarSources } from '#salt/render/pillar-sources.ts';
import { Renderer } from '#salt/render/renderer.ts';
import { saltCmdRunner } from '#salt/runners/salt-cmd.ts';
import { operatorOwner, ownerOfValues } from '#salt/runners/stored-amounts.ts';
import { Float } from '#template';
import { slicesOf } from '../../helpers/slices.ts';

const user: AuditRequester = { who: { kind: 'user', name: 'alice', eauth: 'pam' }, rule: 'all' };
const operator: AuditRequester = { who: { kind: 'local', name: 'root' }, rule: 'all' };

interface Parts {
  readonly renderer: Pick<Renderer, 'call'>;
  readonly lists?: FileLists;
}

/** Returns a function that calls `salt.cmd`. */
function openCmd({ renderer, lists }: Parts) {
  const table = saltCmdRunner({
    masterId: 'north_master',
    masterOptions: () => ({ id: 'north_master' }),
    pillar: undefined,
    files: lists && sourcesOf(lists),
    renderer,
  });
  return async (
    arg: readonly WireValue[],
    kwarg: WireMap = {},
    by: AuditRequester = user,
  ): Promise<WireValue> => {
    const bound = table['salt.cmd']?.bind([...arg], kwarg);
    if (bound === undefined) throw new TypeError('salt.cmd is missing');
    return bound({
      ...{ asked: { fun: 'salt.cmd', arg, kwarg }, jid: '1', user: 'alice', by },
      ...{ timeoutSeconds: undefined, emit: () => {}, closing: new AbortController().signal },
      ...{ continueElsewhere: () => {}, atEnd: () => {} },
    });
  };
}

function sourcesOf(lists: FileLists): PillarSources {
  const backend = {
    name: 'roots',
    find: async () => undefined,
    lists: async () => lists,
    envs: () => ['base'],
    close: async () => {},
  };
  return new PillarSources({ backend, trimBlocks: false, lstripBlocks: false });
}

test('functions run on a thread, for the caller', async (t) => {
  const calls: (readonly [CallTask, string])[] = [];
  const cmd = openCmd({
    renderer: {
      call: async (task, owner) => {
        calls.push([task, owner]);
        return 'of the thread';
      },
    },
  });
  t.is(await cmd(['test.echo', 'x'], { a: 1 }), 'of the thread');
  t.is(await cmd(['test.ping'], {}, operator), 'of the thread');
  t.deepEqual(
    calls.map(([{ fun, args, kwargs, id }, owner]) => ({ fun, args, kwargs, id, owner })),
    [
      {
        fun: 'test.echo',
        args: ['x'],
        kwargs: { a: 1 },
        id: 'north_master',
        owner: ownerOfValues({ by: user }),
      },
      { fun: 'test.ping', args: [], kwargs: {}, id: 'north_master', owner: operatorOwner },
    ],
  );
  await t.throwsAsync(cmd(['cmd.run', 'id']), { code: 'ERR_NOT_SERVED' });
  t.is(calls.length, 2);
});

test('values, options and errors pass from and to the thread unchanged', async (t) => {
  const renderer = new Renderer({ threads: 1 });
  t.teardown(() => renderer.close());
  const cmd = openCmd({ renderer });
  const value = [
    new Float(2),
    2n ** 60n,
    Uint8Array.of(120),
    new Map<WireValue, WireValue>([[1, 2]]),
  ];
  t.deepEqual(await cmd(['test.echo', value]), value);
  t.deepEqual(await cmd(['config.get', 'id']), 'north_master');
  t.is(await cmd(['test.echo', null]), null);
  await t.throwsAsync(cmd(['defaults.merge', 1, 2]), {
    code: 'ERR_ARGS',
    message: 'the argument `dest` must be a dictionary',
  });
});

test('the size of the result of a function is limited', async (t) => {
  const renderer = new Renderer({ threads: 1 });
  t.teardown(() => renderer.close());
  const cmd = openCmd({ renderer });
  const nodes = Object.fromEntries(Array.from({ length: 1100 }, (_, index) => [`n${index}`, {}]));
  const defaults = { text: 'x'.repeat(1000) };
  await t.throwsAsync(cmd(['defaults.update', nodes, defaults]), {
    code: 'ERR_ARGS',
    message: `the result of defaults.update exceeds the limit of ${saltLimits.callResults.perOwner} bytes; call it with fewer or shorter arguments`,
  });
});

test.serial('a large result of a function is read in several slices', async (t) => {
  const renderer = new Renderer({ threads: 1 });
  t.teardown(() => renderer.close());
  const cmd = openCmd({ renderer });
  const value: readonly WireValue[] = Array.from({ length: 100_000 }, () => 0);
  const slices = await slicesOf(async () => {
    t.deepEqual(await cmd(['test.echo', [...value]]), value);
  });
  t.true(slices.length >= 4);
  t.true(slices.every((steps) => steps < 1.1 * maxSliceSteps));
});

test.serial('a search for files reads the list of files once, and takes turns', async (t) => {
  const count = 1000;
  let reads = 0;
  const names = Array.from({ length: count }, (_, index) => `f${index}`);
  const files = new Proxy(names, {
    get: (list, key) => {
      if (typeof key === 'string' && /^\d/.test(key)) reads += 1;
      return Reflect.get(list, key);
    },
  });
  const lists = { files, dirs: ['', 'a'], emptyDirs: [], links: new Map() };
  const renderer = { call: async () => null };
  const cmd = openCmd({ renderer, lists });
  const filenames = Array.from({ length: 999 }, (_, index) => `x${'y'.repeat(200)}${index}`);
  const search = cmd(['slsutil.findup', 'a'], { filenames });
  const slices = await slicesOf(() =>
    t.throwsAsync(search, { message: 'File pattern(s) not found in path ancestry' }),
  );
  t.is(await cmd(['slsutil.findup', 'a'], { filenames: [...filenames, 'f999'] }), 'f999');
  for (const fun of ['slsutil.file_exists', 'slsutil.path_exists']) {
    t.true(await cmd([fun, 'f500']));
    t.false(await cmd([fun, 'x1']));
  }
  t.true(await cmd(['slsutil.dir_exists', 'a']));
  t.is(reads, count);
  t.true(slices.length >= 4);
  t.true(slices.every((steps) => steps < 1.1 * maxSliceSteps));
});
