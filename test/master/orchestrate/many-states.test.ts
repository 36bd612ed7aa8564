/** Orchestrations with many states that refer to each other by requisites. */
import test from 'ava';
import { applyExtensions } from '#salt/orchestrate/extensions.ts';
import { StateIndex } from '#salt/orchestrate/find-ids.ts';
import { type Body, type High, mapOf } from '#salt/orchestrate/high-data.ts';
import { listenersOf } from '#salt/orchestrate/listeners.ts';
import { type Chunk, tagOf } from '#salt/orchestrate/low-chunk.ts';
import { turnRequisites } from '#salt/orchestrate/requisite-in.ts';
import { ChunkIndex } from '#salt/orchestrate/requisites.ts';
import type { PlainData } from '#template';

const count = 2_000;
const numbers = Array.from({ length: count }, (_, at) => at);
/** Maximum number of times that one state may be read on average. */
const mostReads = 20;

/** States whose reads are counted. */
interface Counted<T> {
  readonly all: readonly T[];
  readonly reads: () => number;
}

/** Returns chunks, and the number of times that their state modules or ids were read. */
function countedChunks(args: (at: number) => ReadonlyMap<string, PlainData>): Counted<Chunk> {
  let reads = 0;
  const all = numbers.map((at): Chunk => {
    const place = { fun: 'nop', name: `name${at}`, sls: 's', saltenv: 'base', includedFrom: [] };
    return {
      ...{ ...place, args: args(at) },
      get state() {
        reads += 1;
        return 'test';
      },
      get id() {
        reads += 1;
        return `id${at}`;
      },
    };
  });
  return { all, reads: () => reads };
}

/** Returns high data, and the number of times that its declarations were read. */
function countedHigh(
  args: (at: number) => readonly PlainData[],
): High & Pick<Counted<Body>, 'reads'> {
  let reads = 0;
  const bodies = numbers.map((at): [string, Body] => {
    const states = new Map([['test', ['nop', mapOf('name', `name${at}`), ...args(at)]]]);
    const body: Body = {
      ...{ sls: 's', saltenv: 'base', includedFrom: [] },
      get states() {
        reads += 1;
        return states;
      },
    };
    return [`id${at}`, body];
  });
  return { bodies: new Map<PlainData, Body>(bodies), extend: [], exclude: [], reads: () => reads };
}

test('requisites find their states without a search through all of them', (t) => {
  const { all, reads } = countedChunks(() => new Map());
  const index = new ChunkIndex(all);
  const isFound = (at: number): boolean => {
    const name = at % 2 === 0 ? `id${at}` : `name${at}`;
    return index.meantBy({ kind: 'test', name })[0] === all[at];
  };
  t.true(numbers.every(isFound));
  t.true(reads() <= count * mostReads, `${reads()} reads`);
  t.is(index.meantBy({ kind: 'other', name: 'id1' }).length, 0);
  t.is(index.meantBy({ kind: 'id', name: 'id1' }).length, 1);
  t.is(index.meantBy({ kind: 'test', name: 'id199?' }).length, 10);
});

test('states that listen to each other are found without a search through all of them', (t) => {
  const { all, reads } = countedChunks(
    (at) => new Map([['listen', [at % 2 === 0 ? `id${at}` : mapOf('test', `name${at}`)]]]),
  );
  const outcome = { result: true, changes: { a: 1 }, comment: '' };
  const results = new Map(
    all.map((chunk) => [tagOf(chunk), { name: 'n', outcome, facts: {}, didRun: true }]),
  );
  const { chunks, errors } = listenersOf(all, results);
  t.is(chunks.length, count);
  t.is(errors.size, 0);
  t.true(reads() <= count * mostReads, `${reads()} reads`);
});

test('names in require_in and extend are found without a search through all states', (t) => {
  const high = countedHigh((at) => [
    mapOf('require_in', [at % 2 === 0 ? `name${at}` : mapOf('test', `name${at}`)]),
  ]);
  t.deepEqual(turnRequisites(high), []);
  const body = { sls: 's', saltenv: 'base', includedFrom: [], states: new Map([['test', ['a']]]) };
  const extensions = numbers.map((at) => ({ id: `name${at}`, body }));
  t.deepEqual(applyExtensions(high, extensions, false), []);
  t.true(high.reads() <= count * mostReads, `${high.reads()} reads`);
  t.deepEqual(high.bodies.get('id7')?.states.get('test'), [
    'a',
    mapOf('name', 'name7'),
    mapOf('require_in', [mapOf('test', 'name7')]),
    mapOf('require', [mapOf('test', 'id7')]),
  ]);
});

test('each item of a list in require_in adds one requisite', (t) => {
  const items = numbers.slice(1, 101).map((at) => mapOf('test', `id${at}`));
  const high = countedHigh((at) => (at === 0 ? [mapOf('require_in', items)] : []));
  t.deepEqual(turnRequisites(high), []);
  for (const at of [1, 50, 100]) {
    t.deepEqual(high.bodies.get(`id${at}`)?.states.get('test'), [
      'nop',
      mapOf('name', `name${at}`),
      mapOf('require', [mapOf('test', 'id0')]),
    ]);
  }
});

test('a reference to an SLS means the first state of each id', (t) => {
  const states = new Map([
    ['test', ['nop']],
    ['salt', ['function']],
  ]);
  const bodies = numbers.map((at): [PlainData, Body] => [
    `id${at}`,
    { sls: at % 2 === 0 ? 's' : 'other', saltenv: 'base', includedFrom: [], states },
  ]);
  const found = new StateIndex(new Map(bodies)).find('s', 'sls', true);
  t.is(found.length, count / 2);
  t.deepEqual(found[1], { id: 'id2', state: 'test' });
});

test('the index of states contains the arguments that extend has changed', (t) => {
  const { bodies } = countedHigh(() => []);
  const index = new StateIndex(bodies);
  t.deepEqual(index.find('name3', 'test', true), [{ id: 'id3', state: 'test' }]);
  const body = bodies.get('id4');
  if (body !== undefined) {
    const states = new Map([['test', [mapOf('name', 'name3'), mapOf('list', ['name3'])]]]);
    index.replace('id4', { ...body, states });
  }
  t.deepEqual(
    index.find('name3', 'test', true).map(({ id }) => id),
    ['id3', 'id4'],
  );
  t.deepEqual(index.find('name4', 'test', true), []);
  t.deepEqual(index.find(['name3'], 'test', true), [{ id: 'id4', state: 'test' }]);
});
