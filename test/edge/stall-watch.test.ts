import test from 'ava';
import { StallWatch } from '#edge/link/stall-watch.ts';

/** Returns the seconds at which a watch acts, while the other side does not answer. */
function actions(
  watch: StallWatch,
  seconds: number,
  isWaiting: boolean,
  writtenOf: (second: number) => number = () => 0,
): readonly string[] {
  const found: string[] = [];
  for (let second = 0; second <= seconds; second += 1) {
    const traffic = { bytesRead: 0, bytesWritten: writtenOf(second) };
    const action = watch.check(second * 1000, traffic, isWaiting);
    if (action !== undefined) found.push(`${action} ${second}`);
    if (action === 'end') break;
  }
  return found;
}

test('sends a heartbeat each minute while nothing is expected', (t) => {
  const watch = new StallWatch(100);
  let read = 0;
  const pings: number[] = [];
  for (let second = 0; second <= 200; second += 1) {
    const action = watch.check(second * 1000, { bytesRead: read, bytesWritten: 0 }, false);
    if (action === undefined) continue;
    t.is(action, 'ping');
    pings.push(second);
    read += 1;
  }
  t.deepEqual(pings, [60, 121, 182]);
});

test('ends a connection on which neither an answer nor a heartbeat arrives', (t) => {
  t.deepEqual(actions(new StallWatch(100), 100, true), ['ping 4', 'end 13']);
  t.deepEqual(actions(new StallWatch(100), 100, false), ['ping 60', 'end 69']);
});

test('waits longer on a link with long round trips, and while much is being sent', (t) => {
  t.deepEqual(actions(new StallWatch(4000), 100, true), ['ping 4', 'end 21']);
  const sending = actions(new StallWatch(100), 100, true, (second) => (second < 6 ? 0 : 60_000));
  t.deepEqual(sending, ['ping 4', 'end 33']);
});

test('received bytes end the wait for a heartbeat', (t) => {
  const watch = new StallWatch(100);
  t.is(watch.check(0, { bytesRead: 0, bytesWritten: 0 }, true), undefined);
  t.is(watch.check(4000, { bytesRead: 0, bytesWritten: 0 }, true), 'ping');
  t.is(watch.check(11_000, { bytesRead: 1, bytesWritten: 0 }, true), undefined);
  t.is(watch.check(14_000, { bytesRead: 1, bytesWritten: 0 }, true), undefined);
  t.is(watch.check(15_000, { bytesRead: 1, bytesWritten: 0 }, true), 'ping');
});
