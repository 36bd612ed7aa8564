import { errorMessage } from '#runtime';
/** Program with the attacker or with the other minions. It runs in a process of its own. */
import { importKey, swarmId } from '../swarm/keys.ts';
import { type Known, SwarmMinion } from '../swarm/minion.ts';
import { Dealer } from '../swarm/zmtp-client.ts';
import { type Arsenal, type Attacker, attack, knownMinion } from './attacks.ts';
import type { FloodAnswer, FloodOrder, FloodOutcome } from './orders.ts';
import { atRate, Stopwatch } from './pace.ts';

/** Index of the first minion that does not take part in the attack. */
const firstOther = 2;
const signInsPerSecond = 5;
/**
 * Time to wait for the replies to sign-ins at the end, in milliseconds. Then they count as
 * unanswered.
 */
const graceMs = 5000;

let attacker: Attacker | undefined;
const arsenal: Arsenal = { events: undefined };
const minions: SwarmMinion[] = [];

async function carryOut(order: FloodOrder): Promise<FloodOutcome> {
  switch (order.do) {
    case 'enlist':
      attacker = order;
      return enlist(order);
    case 'demand':
      return demand(order.perSecond, order.seconds);
    case 'sign-ins':
      return signIns(enlisted(), order.seconds);
    case 'attack':
      return attack(enlisted(), arsenal, order.attack, order.perSecond, order.seconds);
  }
}

function enlisted(): Attacker {
  if (attacker === undefined)
    throw new Error('no simulated minions are connected: send the order enlist first');
  return attacker;
}

/** Signs in the minions. Each has its own connection, as real minions have. */
async function enlist({
  count,
  keys,
  requestPort,
  address,
}: Extract<FloodOrder, { do: 'enlist' }>): Promise<FloodOutcome> {
  const imported = keys.map(importKey);
  let known: Known | undefined;
  const stopwatch = new Stopwatch();
  for (let index = firstOther; index < firstOther + count; index += 1) {
    const key = imported[index % imported.length];
    if (key === undefined) throw new Error('there are no keys');
    const minion = new SwarmMinion(swarmId(index), index, key, new Dealer(requestPort, address));
    known = await minion.signIn(known);
    minions.push(minion);
  }
  return stopwatch.outcome();
}

async function demand(perSecond: number, seconds: number): Promise<FloodOutcome> {
  const stopwatch = new Stopwatch();
  const isBusy = new Set<SwarmMinion>();
  let turn = 0;
  await atRate(perSecond, seconds, () => {
    turn = (turn + 1) % minions.length;
    const minion = minions[turn];
    // A minion that is still waiting for a reply sends no further event, so it gets less service.
    if (minion === undefined || isBusy.has(minion)) return;
    isBusy.add(minion);
    const tag = `salt/beacon/${minion.id}/bench/${turn}`;
    const load = { cmd: '_minion_event', tag, data: { turn }, pretag: null };
    void stopwatch.watch(minion.ask(load)).finally(() => isBusy.delete(minion));
  });
  return stopwatch.outcome();
}

/**
 * Signs in like minions that have just started: each with a new connection, and with all checks.
 */
async function signIns(
  { keys, requestPort, address }: Attacker,
  seconds: number,
): Promise<FloodOutcome> {
  const text = keys[knownMinion % keys.length];
  if (text === undefined) throw new Error('there are no keys');
  const key = importKey(text);
  const stopwatch = new Stopwatch();
  await atRate(signInsPerSecond, seconds, () => {
    const dealer = new Dealer(requestPort, address);
    const minion = new SwarmMinion(swarmId(knownMinion), 0, key, dealer);
    void stopwatch.watch(minion.signIn(undefined)).finally(() => dealer.close());
  });
  await stopwatch.settle(graceMs);
  return stopwatch.outcome();
}

process.on('message', (order: FloodOrder) => {
  const respond = (answer: FloodAnswer): void => void process.send?.(answer);
  carryOut(order).then(respond, (error: unknown) => respond({ error: errorMessage(error) }));
});
process.on('disconnect', () => process.exit(0));
