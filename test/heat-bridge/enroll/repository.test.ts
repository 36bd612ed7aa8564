/** Enrolments by what others know of them. */
import test from 'ava';
import type { Enrolment } from '../../../heat-bridge/enroll/enrolment.ts';
import { EnrolmentRepository } from '../../../heat-bridge/enroll/enrolment-repository.ts';
import { memoryState } from '../signals/open-signals.ts';

const one: Enrolment = {
  ...{ number: '1', id: 'web1', project: 'p', instance: 'i', protocol: 3, createdAt: 1 },
  by: 'claim',
  state: 'open',
};

function found(book: EnrolmentRepository): readonly (readonly string[])[] {
  const numbers = (all: Iterable<Enrolment>): string[] =>
    Array.from(all, ({ number, state }) => `${number} ${state}`);
  return [numbers(book.liveOfInstance('i')), numbers(book.liveOfProject('p'))];
}

test('an enrolment is found by its instance and project as it is now, while it has an id', async (t) => {
  const state = memoryState();
  const book = await EnrolmentRepository.open(state, () => 1);
  await book.put(one, { ...one, number: '2', id: 'web2', project: 'q', instance: 'j' });
  t.deepEqual([found(book), book.open], [[['1 open'], ['1 open']], 2]);
  await book.put({ ...one, state: 'accepted' });
  t.deepEqual([found(book), book.open], [[['1 accepted'], ['1 accepted']], 1]);
  const reopened = await EnrolmentRepository.open(state, () => 1);
  t.deepEqual([found(reopened), reopened.open], [[['1 accepted'], ['1 accepted']], 1]);
  await book.put({ ...one, state: 'retired' });
  t.deepEqual(found(book), [[], []]);
});

test('what the store does not take changes nothing', async (t) => {
  const state = memoryState();
  let isBroken = false;
  const book = await EnrolmentRepository.open(
    {
      list: state.list,
      write: async (operations) => {
        if (isBroken) throw new Error('the disk is full');
        return state.write(operations);
      },
    },
    () => 1,
  );
  await book.put(one);
  isBroken = true;
  await t.throwsAsync(book.put({ ...one, state: 'retired' }));
  await t.throwsAsync(book.put({ ...one, number: '3', id: 'web3' }));
  t.deepEqual([found(book), book.open], [[['1 open'], ['1 open']], 1]);
});
