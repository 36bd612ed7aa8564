/** Joins a cluster. The master must not be running. */

import { createHash, randomBytes } from 'node:crypto';
import { appendFile, mkdtemp, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type MasterConfig, storeDirectory } from '#config';
import { ifPresent, makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { restoreStore, StoreError } from '#store';
import {
  decodeFrame,
  encodeFrame,
  frameKinds,
  type JoinReply,
  type JoinRequest,
  newExchangeKeys,
  openBody,
  parseTicket,
  publicKeyBytes,
  replyKey,
  sealBody,
  type Ticket,
} from './join-frames.ts';
import { loadLogEngine } from './log/log-engine.ts';
import type { TransactionLog } from './log/transaction-log.ts';
import {
  type ClusterReceipt,
  connectTo,
  memberOf,
  type OfflineClusterOptions,
} from './offline-cluster.ts';
import { giveToOwners } from './state-files.ts';

/** Interval at which an unanswered request is repeated, in milliseconds. */
const repeatMs = 1000;

/** Time without an answer after which joining fails, in milliseconds. */
const answerLimitMs = 20_000;

/**
 * Makes this master a member of a cluster. Sends the ticket to the members, and receives the secret
 * and a backup of the store from the member that answers. Nothing on this host changes before
 * everything has arrived.
 * @throws StoreError ERR_CLUSTER_TICKET; ERR_CLUSTER_FOUNDED if this master is already a member or
 * has its own store
 */
export async function joinCluster(
  config: MasterConfig,
  ticketText: string,
  options: OfflineClusterOptions = {},
): Promise<ClusterReceipt> {
  const { cluster, receipt } = memberOf(config);
  const { member, secretFile } = receipt;
  const ticket = parseTicket(ticketText);
  if (ticket.cluster !== cluster.name) {
    throw refusedTicket(
      `it was created for cluster ${ticket.cluster}, but saltbridge: cluster: name is ${cluster.name}`,
    );
  }
  await assertNothingHere(config, secretFile);
  const log = await connectTo(cluster, options, false);
  try {
    await takeOver(config, secretFile, (file) => new JoinExchange(log, ticket, member).run(file));
  } finally {
    await log.close();
  }
  await giveToOwners([config.stateDir, config.pkiDir]);
  return receipt;
}

/**
 * Installs the secret and the store of the cluster.
 * @param fetchBackup - writes the backup of a member to a file and returns the secret
 */
async function takeOver(
  { stateDir }: MasterConfig,
  secretFile: string,
  fetchBackup: (file: string) => Promise<string>,
): Promise<void> {
  await makeDirectory(stateDir, 0o700);
  const directory = await mkdtemp(path.join(stateDir, 'joining-'));
  try {
    const file = path.join(directory, 'backup');
    const secret = await fetchBackup(file);
    await restoreStore({ file, directory: storeDirectory(stateDir) });
    // The secret is written last, because a master does not start as a member without it.
    await writeFileAtomically(secretFile, `${secret}\n`, 0o600);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function refusedTicket(reason: string): StoreError {
  return new StoreError('ERR_CLUSTER_TICKET', `the ticket was rejected: ${reason}`);
}

/**
 * Checks that this master has no store, and no file with the secret of a cluster.
 *
 * @throws StoreError ERR_CLUSTER_FOUNDED
 */
async function assertNothingHere({ stateDir }: MasterConfig, secretFile: string): Promise<void> {
  if ((await readTextIfPresent(secretFile)) !== undefined) {
    const message = `${secretFile} exists: this master is already a member`;
    throw new StoreError('ERR_CLUSTER_FOUNDED', message);
  }
  const data = path.join(storeDirectory(stateDir), 'data.mdb');
  const found = await ifPresent(stat(data));
  if (found === undefined) return;
  const message = `${data} is the store of a standalone master: move ${stateDir} away, or run saltbridge cluster init to create a cluster with this store`;
  throw new StoreError('ERR_CLUSTER_FOUNDED', message);
}

type Reply = { readonly body: JoinReply; readonly content: Buffer };

/** Messages with which a joining master requests and receives a member's backup. */
class JoinExchange {
  readonly #log: TransactionLog;
  readonly #ticket: Ticket;
  readonly #member: string;
  readonly #request = randomBytes(16).toString('hex');
  readonly #keys = newExchangeKeys();

  constructor(log: TransactionLog, ticket: Ticket, member: string) {
    this.#log = log;
    this.#ticket = ticket;
    this.#member = member;
  }

  /**
   * Sends the request to join, and writes the backup that a member returns to a file.
   * @returns the secret of the cluster in base64
   */
  async run(file: string): Promise<string> {
    const request = this.#request;
    const publicKey = this.#keys.publicKey.toString('base64');
    const { body } = await this.#ask(
      { kind: 'join', request, member: this.#member, publicKey },
      ({ body: it }) => it.kind !== 'chunk',
    );
    if (body.kind === 'refused') throw refusedTicket(body.message);
    if (body.kind !== 'joined') throw refusedTicket('a member sent an unexpected reply');
    const digest = createHash('sha256');
    for (let chunk = 0; chunk < body.chunks; chunk += 1) {
      const { content } = await this.#ask(
        { kind: 'chunk', request, chunk },
        ({ body: it }) => it.kind === 'chunk' && it.chunk === chunk,
      );
      digest.update(content);
      await appendFile(file, content, { mode: 0o600 });
    }
    if (digest.digest('hex') !== body.sha256) {
      throw refusedTicket('the backup does not match its announced checksum; create a new ticket');
    }
    return body.secret;
  }

  /**
   * Repeats a request until a member sends the awaited reply.
   * @throws StoreError ERR_CLUSTER_TICKET
   */
  async #ask(request: JoinRequest, isMeant: (reply: Reply) => boolean): Promise<Reply> {
    const { LogCipher } = await loadLogEngine();
    const { id, key, cluster } = this.#ticket;
    const sealing = new LogCipher(Buffer.from(key, 'hex'), cluster, 'ticket');
    const end = new AbortController();
    const send = (): void => {
      const frame = encodeFrame(frameKinds.request, id, sealBody(sealing, request));
      this.#log.announce(frame);
    };
    const repeat = setInterval(send, repeatMs);
    let limit: NodeJS.Timeout | undefined;
    let isUnknown = false;
    try {
      return await new Promise<Reply>((resolve, reject) => {
        limit = setTimeout(() => {
          const problem = 'no member of the cluster answered';
          const why =
            'no member of the cluster accepted the ticket, and at least one member does not know the ticket; create a new one';
          reject(refusedTicket(isUnknown ? why : problem));
        }, answerLimitMs);
        this.#log.onAnnouncement((bytes) => {
          // Every client of NATS can send this frame, so it only changes the text of the error.
          if (decodeFrame(frameKinds.unknown, bytes)?.id === id) isUnknown = true;
          const frame = decodeFrame(frameKinds.reply, bytes);
          if (frame?.id !== id) return;
          const other = frame.sealed.subarray(0, publicKeyBytes);
          const opened = replyKey(key, this.#keys, other);
          // Every client of the log's servers can send replies, so this one may be forged.
          if (opened === undefined) return;
          const opening = new LogCipher(opened, cluster, 'ticket');
          const reply = openBody<JoinReply>(opening, frame.sealed.subarray(publicKeyBytes));
          if (reply?.body.request === this.#request && isMeant(reply)) resolve(reply);
        }, end.signal);
        send();
      });
    } finally {
      end.abort();
      clearInterval(repeat);
      clearTimeout(limit);
    }
  }
}
