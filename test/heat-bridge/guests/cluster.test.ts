/** Members of a cluster share data spaces, values, and enrolments of instances. */
import test, { type ExecutionContext } from 'ava';
import { createStoreCoordinator } from '#guests/data-spaces/coordinator.ts';
import { type DataSpaceRegistration, DataSpaces } from '#guests/data-spaces/data-spaces.ts';
import { DataValues } from '#guests/data-spaces/data-values.ts';
import {
  type InstanceEnrolmentDeps,
  InstanceEnrolments,
} from '#guests/metadata-agent/instance-enrolments.ts';
import { within } from '../../helpers/deadline.ts';
import { type TestMember, twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

interface GuestsOfMember {
  readonly spaces: DataSpaces;
  readonly values: DataValues;
}

async function openMember(t: ExecutionContext, { area: state }: TestMember) {
  const closing = new AbortController();
  t.teardown(() => closing.abort());
  const { signal } = closing;
  const forget = (space: string): Promise<void> => values.forget(space);
  const spaces = await DataSpaces.open({ state, forget, closing: signal, now: Date.now });
  const values: DataValues = new DataValues({
    spaces,
    coordinator: await createStoreCoordinator(state),
    seal: (plain) => state.seal(plain),
    unseal: (sealed) => state.unseal(sealed),
    bytesPerStack: 1000,
    isShared: true,
    describeMinion: async () => '',
    closing: signal,
  });
  return { spaces, values } satisfies GuestsOfMember;
}

function spaceOf(name: string, minion: string): DataSpaceRegistration {
  const writes = { address: {}, state: { versioned: true }, password: { secret: true } };
  const reads = { one: 'db/address', two: 'db/password', three: 'db/state' };
  return {
    name,
    roles: { db: { minions: [minion], writes }, web: { minions: [`${name}-web`], reads } },
  };
}

test('a value written at one member reaches a reader that waits at another', async (t) => {
  const [one, two] = await twoMembers(t);
  const [a, b] = [await openMember(t, one), await openMember(t, two)];
  await a.spaces.add(spaceOf('shop', 'db-1'), 'p', false);
  await two.applied();
  const reader = { minion: 'shop-web', isPrivate: true };
  const waiting = a.values.read(reader, { key: 'db/password', waitMs: 20_000 });
  await b.values.write('db-1', 'db/password', 'secret');
  t.like(await within('the value', waiting), { value: 'secret', version: 1 });
  await one.applied();
  const other = { code: 'ERR_DATA_WRITTEN' };
  await t.throwsAsync(a.values.write('db-1', 'db/password', 'other'), other);
  await b.values.write('db-1', 'db/state', 'up');
  await one.applied();
  t.like(await a.values.write('db-1', 'db/state', 'down'), { version: 2 });
  await two.applied();
  await b.spaces.remove('shop', 'p');
  await one.applied();
  await t.throwsAsync(a.values.write('db-1', 'db/state', 'up'), { code: 'ERR_DATA_UNKNOWN' });
  const left: unknown[] = [];
  for await (const { key } of one.area.list(['guests'])) left.push(key);
  t.deepEqual(left, []);
});

test('a value of a space that another member removes at the same time is removed too', async (t) => {
  const [one, two] = await twoMembers(t);
  const [a, b] = [await openMember(t, one), await openMember(t, two)];
  await a.spaces.add(spaceOf('shop', 'db-1'), 'p', false);
  await two.applied();
  await Promise.allSettled([
    a.spaces.remove('shop', 'p'),
    ...['x', 'y', 'z'].map((text) => b.values.write('db-1', 'db/state', text)),
  ]);
  await Promise.all([one.applied(), two.applied()]);
  const left: unknown[] = [];
  for await (const { key } of one.area.list(['guests'])) left.push(key);
  t.deepEqual(left, []);
});

test('a minion is in one space, even if two members register it at the same time', async (t) => {
  const members = await Promise.all((await twoMembers(t)).map((it) => openMember(t, it)));
  const added = await Promise.allSettled(
    members.map(({ spaces }, index) => spaces.add(spaceOf(`shop-${index}`, 'db-1'), 'p', false)),
  );
  t.deepEqual(
    added.flatMap((it) => (it.status === 'rejected' ? it.reason.code : [])),
    ['ERR_DATA_EXISTS'],
  );
});

test('an instance has one ticket, even at a member that has not received it yet', async (t) => {
  const state = memoryState();
  const enrolments = new Map<string, { readonly number: string; readonly state: 'open' }>();
  let made = 0;
  const open = (knows: () => boolean, onWrite: () => void): InstanceEnrolments =>
    new InstanceEnrolments({
      state: {
        ...state,
        get: async (key) => (knows() ? state.get(key) : undefined),
        write: (operations) => {
          onWrite();
          return state.write(operations);
        },
        // Nothing more is requested from it.
        cluster: {} as NonNullable<typeof state.cluster>,
      },
      enroll: {
        api: {
          create: async ({ project }: { readonly project: string }) => {
            made += 1;
            const number = String(made);
            const enrolment = { number, project, state: 'open' } as const;
            enrolments.set(number, enrolment);
            return { enrolment, userData: `ticket ${number}` };
          },
        },
        enrolments: {
          get: (number: string) => enrolments.get(number),
          liveOf: () => undefined,
          liveOfInstance: () => [],
        },
        reissue: async ({ number }: { readonly number: string }) => ({
          userData: `ticket ${number}`,
        }),
      } as unknown as InstanceEnrolmentDeps['enroll'],
    });
  const request = { id: 'web', instance: 'i', project: 'p' };
  const a = open(
    () => true,
    () => {},
  );
  let isApplied = false;
  const b = open(
    () => isApplied,
    () => {
      isApplied = true;
    },
  );
  t.deepEqual(await a.userDataFor(request), { userData: 'ticket 1' });
  t.deepEqual(await b.userDataFor(request), { userData: 'ticket 1' });
});
