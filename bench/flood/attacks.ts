/** Performs the attacks of the flood benchmark. */
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { importKey, type SwarmKey, type SwarmKeyText, swarmId } from '../swarm/keys.ts';
import { SwarmMinion } from '../swarm/minion.ts';
import { Dealer } from '../swarm/zmtp-client.ts';
import type { Attack, FloodOutcome } from './orders.ts';
import { atRate, Stopwatch } from './pace.ts';

/** Keys and connection data of an attacker. */
export interface Attacker {
  readonly keys: readonly SwarmKeyText[];
  readonly requestPort: number;
  readonly address: string;
}

/** Index of the minion whose private key the attacker has. */
const stolenMinion = 0;
/** Index of the minion whose public key the attacker replays. */
export const knownMinion = 1;

const connections = 8;
/**
 * Maximum number of unanswered requests on a connection. At this number, the attacker closes the
 * connection, or waits.
 */
const patience = 200;
const sealedBefore = 20_000;

/**
 * Requests of the attack. They are encrypted before it, because their encryption must not be
 * measured.
 */
export interface Arsenal {
  events: readonly Uint8Array[] | undefined;
}

/** Sends requests at a given rate for some time, if the master accepts them. */
export async function attack(
  attacker: Attacker,
  arsenal: Arsenal,
  kind: Attack,
  perSecond: number,
  seconds: number,
): Promise<FloodOutcome> {
  const next = await ammunition(attacker, arsenal, kind);
  const reconnects = kind === 'forbidden events, reconnecting';
  const dealers = Array.from({ length: connections }, () => open(attacker));
  const stopwatch = new Stopwatch();
  let turn = 0;
  await atRate(perSecond, seconds, () => {
    turn = (turn + 1) % connections;
    const dealer = dealers[turn];
    if (dealer === undefined) return;
    if (dealer.isClosed || (reconnects && dealer.waiting >= patience)) {
      dealer.close();
      dealers[turn] = open(attacker);
    } else if (dealer.waiting < patience) {
      void stopwatch.watch(dealer.ask(next()));
    }
  });
  for (const dealer of dealers) dealer.close();
  return stopwatch.outcome();
}

function open({ requestPort, address }: Attacker): Dealer {
  return new Dealer(requestPort, address);
}

/**
 * Returns a function that creates the requests of an attack. Requests that are expensive to create
 * are created in advance.
 */
async function ammunition(
  attacker: Attacker,
  arsenal: Arsenal,
  kind: Attack,
): Promise<() => Uint8Array> {
  let index = 0;
  if (kind === 'unknown ids' || kind === 'replayed key') {
    const key = keyOf(attacker, knownMinion);
    return () => {
      index += 1;
      return signIn(kind === 'replayed key' ? swarmId(knownMinion) : `nobody-${index}`, key);
    };
  }
  arsenal.events ??= await forbiddenEvents(attacker);
  const requests = arsenal.events;
  return () => {
    index = (index + 1) % requests.length;
    return requests[index] ?? new Uint8Array();
  };
}

async function forbiddenEvents(attacker: Attacker): Promise<Uint8Array[]> {
  const dealer = open(attacker);
  const recorder = new Recorder(dealer);
  const key = keyOf(attacker, stolenMinion);
  const minion = new SwarmMinion(swarmId(stolenMinion), 0, key, recorder);
  await minion.signIn(undefined);
  dealer.close();
  recorder.isRecording = true;
  for (let index = 0; index < sealedBefore; index += 1) {
    const load = { cmd: '_minion_event', tag: `forbidden/${index}`, data: { index }, pretag: null };
    // This only encrypts and records the request, so the promise never settles.
    void minion.ask(load);
  }
  return recorder.requests;
}

/** Records requests instead of sending them. */
class Recorder {
  readonly requests: Uint8Array[] = [];
  isRecording = false;
  readonly #dealer: Dealer;

  constructor(dealer: Dealer) {
    this.#dealer = dealer;
  }

  ask(request: Uint8Array): Promise<Buffer> {
    if (!this.isRecording) return this.#dealer.ask(request);
    this.requests.push(request);
    return new Promise(() => {});
  }
}

function keyOf({ keys }: Attacker, index: number): SwarmKey {
  const text = keys[index % keys.length];
  if (text === undefined) throw new Error('there are no keys');
  return importKey(text);
}

function signIn(id: string, { privateKey, publicPem, token }: SwarmKey): Uint8Array {
  return createMinionHandshake({ id, version: 3, privateKey, publicPem, token }).request();
}
