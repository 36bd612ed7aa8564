/** Enrolments in the store, which other members can change. */
import test from 'ava';
import { type Enrolment, SharedNames } from '#heat-bridge';
import { EnrolmentRepository } from '#heat-bridge/enroll/enrolment-repository.ts';
import { twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

const one: Enrolment = {
  ...{ number: '1', id: 'web1', project: 'p', instance: 'i', protocol: 3, createdAt: 1 },
  by: 'claim',
  state: 'open',
};

function found(repository: EnrolmentRepository): readonly (readonly string[])[] {
  const numbers = (all: Iterable<Enrolment>): string[] =>
    Array.from(all, ({ number, state }) => `${number} ${state}`);
  return [numbers(repository.liveOfInstance('i')), numbers(repository.acceptedOfProject('p'))];
}

test('an enrolment is found by its current instance and project while it has an id', async (t) => {
  const state = memoryState();
  const repository = await EnrolmentRepository.open(state, () => 1);
  await repository.put(one, { ...one, number: '2', id: 'web2', project: 'q', instance: 'j' });
  t.deepEqual([found(repository), repository.open], [[['1 open'], []], 2]);
  await repository.put({ ...one, state: 'accepted' });
  t.deepEqual([found(repository), repository.open], [[['1 accepted'], ['1 accepted']], 1]);
  const reopened = await EnrolmentRepository.open(state, () => 1);
  t.deepEqual([found(reopened), reopened.open], [[['1 accepted'], ['1 accepted']], 1]);
  await repository.put({ ...one, state: 'retired' });
  t.deepEqual(found(repository), [[], []]);
});

test('a failed write to the store changes nothing', async (t) => {
  const state = memoryState();
  let isBroken = false;
  const repository = await EnrolmentRepository.open(
    {
      ...state,
      write: async (operations) => {
        if (isBroken) throw new Error('the disk is full');
        return state.write(operations);
      },
    },
    () => 1,
  );
  await repository.put(one);
  isBroken = true;
  await t.throwsAsync(repository.put({ ...one, state: 'retired' }));
  await t.throwsAsync(repository.put({ ...one, number: '3', id: 'web3' }));
  t.deepEqual([found(repository), repository.open], [[['1 open'], []], 1]);
});

test('one of two members that change the same enrolment at once is refused', async (t) => {
  const [a, b] = await twoMembers(t);
  const [first, second] = [
    await EnrolmentRepository.open(a.area, () => 1),
    await EnrolmentRepository.open(b.area, () => 1),
  ];
  const followed: Enrolment[] = [];
  second.onFollowed = (enrolment) => followed.push(enrolment);
  await first.put(one);
  await b.applied();
  t.deepEqual([found(second), second.open], [[['1 open'], []], 1]);
  const fingerprints = ['aa', 'bb'];
  const made = await Promise.allSettled(
    [first, second].map((repository, index) =>
      repository.put({ ...one, state: 'accepted', fingerprint: fingerprints[index] ?? '' }),
    ),
  );
  t.is(made.filter(({ status }) => status === 'fulfilled').length, 1);
  await Promise.all([a.applied(), b.applied()]);
  t.deepEqual(first.get('1'), second.get('1'));
  await first.putEnd({ ...one, state: 'retired' });
  await b.applied();
  t.deepEqual([found(second), [...second.ending()].length], [[[], []], 1]);
  t.is(followed.at(-1)?.state, 'retired');
});

test('one of two members that decide about the same name at once decides again', async (t) => {
  const [a, b] = await twoMembers(t);
  const names = [await SharedNames.open(a.area, 'names'), await SharedNames.open(b.area, 'names')];
  let isTaken = false;
  const tries = [0, 0];
  const taking: Promise<boolean>[] = [];
  const take = (index: number): Promise<boolean> =>
    names[index]?.decide(['one'], async (steps) => {
      tries[index] = (tries[index] ?? 0) + 1;
      // If a second decision is needed, the other member has written something that this member may
      // not have applied yet.
      if (tries[index] > 1) await taking[1 - index];
      if (isTaken) return false;
      await [a, b][index]?.area.write(steps);
      isTaken = true;
      return true;
    }) ?? Promise.resolve(false);
  taking.push(take(0), take(1));
  t.deepEqual((await Promise.all(taking)).sort(), [false, true]);
});
