/**
 * Enrolments that are created when an instance, or Nova, requests user-data. Each instance has at
 * most one enrolment. Until the ticket of the enrolment is used, each request returns user-data
 * with this ticket. Later requests are rejected.
 */

import Type from 'typebox';
import { BridgeError, type Enrolment, type EnrolmentModule, type EnrolRequest } from '#heat-bridge';
import type { SharedArea } from '#master';
import { KeyedMutex } from '#runtime';
import { defineRow } from '#store';

/** Request for the user-data of an instance, with the id of its future minion. */
export interface InstanceRequest
  extends Pick<EnrolRequest, 'agent' | 'id' | 'lifetimeSeconds' | 'masters' | 'project'> {
  readonly instance: string;
}

/**
 * User-data with a ticket, or the reason why the instance gets none. Only the operator sees the
 * reason.
 */
export type InstanceUserData =
  | { readonly userData: string }
  | { readonly refusal: string; readonly code?: string };

/**
 * Prefix of the keys of rows that record, for each instance, the number of its latest enrolment.
 * Rows are never deleted, so that no instance can use two tickets.
 */
const prefix = ['guests', 'vendordata'];

/** Format of the rows with the keys `guests/vendordata/<instance>`. */
const instanceRow = defineRow({
  name: 'enrolment of an instance',
  schema: Type.Object({ number: Type.String() }),
  unversioned: (bytes) => ({ number: Buffer.from(bytes).toString('utf8') }),
});

/**
 * Key of a row that a cluster member writes before it looks up the enrolment of an instance. When
 * this write has been applied, the member has also applied all earlier writes of the other members.
 */
const askedKey = ['guests', 'vendordata-asked'];
const noValue = new Uint8Array(0);

export interface InstanceEnrolmentDeps {
  readonly state: Pick<SharedArea, 'cluster' | 'get' | 'write'>;
  readonly enroll: Pick<EnrolmentModule, 'api' | 'enrolments' | 'reissue'>;
}

/**
 * Enrolment of an instance. `enrolment` is `undefined` if the enrolment has ended and was deleted
 * later.
 */
interface KnownEnrolment {
  readonly enrolment: Enrolment | undefined;
}

/** Creates and finds the enrolments of instances, at most one for each. */
export class InstanceEnrolments {
  readonly #deps: InstanceEnrolmentDeps;
  readonly #byInstance = new KeyedMutex();
  readonly #byId = new KeyedMutex();

  constructor(deps: InstanceEnrolmentDeps) {
    this.#deps = deps;
  }

  /**
   * Whether an instance cannot get user-data any more, because its enrolment was used or has ended.
   */
  async isOver(asked: Pick<InstanceRequest, 'instance' | 'project'>): Promise<boolean> {
    const known = await this.#knownOf(asked);
    return known !== undefined && (known.enrolment === undefined || isUsed(known.enrolment));
  }

  /** Returns user-data for an instance, and creates its enrolment on the first request. */
  async userDataFor(request: InstanceRequest): Promise<InstanceUserData> {
    // Handle the requests of an instance one at a time, because the first request creates its
    // enrolment.
    return this.#byInstance.run(request.instance, () => {
      // Handle the requests for a minion id one at a time, so that a second instance cannot take
      // the id of the first one.
      return this.#byId.run(request.id, () => this.#userDataFor(request));
    });
  }

  async #userDataFor(request: InstanceRequest): Promise<InstanceUserData> {
    const { enroll, state } = this.#deps;
    const { id, instance, project } = request;
    // When this write is applied, all earlier writes of other members are visible.
    if (state.cluster !== undefined)
      await state.write([{ op: 'put', key: askedKey, value: noValue }]);
    const known = await this.#knownOf(request);
    const isAnother = known !== undefined && known.enrolment?.project !== project;
    if (isAnother)
      return { refusal: 'the enrolment of the instance has ended, or belongs to another project' };
    if (isUsed(known?.enrolment)) return { refusal: 'the instance has already used its enrolment' };
    const holder = enroll.enrolments.liveOf(id);
    if (id === instance && holder?.state === 'open' && holder.project !== project) {
      // The cloud confirms that this instance exists. The other project only used the id of the
      // instance in a request.
      await enroll.api.retire({ number: holder.number });
    } else if (holder !== undefined && holder.instance !== instance) {
      // Otherwise this enrolment would replace the unused enrolment of another machine with the id.
      return { refusal: `the minion id ${id} is already enrolled for another machine` };
    }
    try {
      if (known?.enrolment?.state === 'open') {
        return { userData: (await enroll.reissue(known.enrolment, request)).userData };
      }
      const { enrolment, userData } = await enroll.api.create(request);
      const value = instanceRow.encode({ number: enrolment.number });
      await state.write([{ op: 'put', key: [...prefix, instance], value }]);
      return { userData };
    } catch (error) {
      if (!(error instanceof BridgeError)) throw error;
      return { refusal: error.message, code: error.code };
    }
  }

  async #knownOf({
    instance,
    project,
  }: Pick<InstanceRequest, 'instance' | 'project'>): Promise<KnownEnrolment | undefined> {
    const { enroll, state } = this.#deps;
    const row = await state.get([...prefix, instance]);
    if (row !== undefined) {
      return { enrolment: enroll.enrolments.get(instanceRow.decode(row).number) };
    }
    // The instance was enrolled in another way. Any project can name the instance in an enrolment
    // of its own.
    const other = [...enroll.enrolments.liveOfInstance(instance)].find(
      (it) => it.project === project,
    );
    return other && { enrolment: { ...other, state: 'accepted' } };
  }
}

/**
 * Whether the ticket of an enrolment was used. If it expired unused, the instance may be enrolled
 * again.
 */
function isUsed(enrolment: Enrolment | undefined): boolean {
  if (enrolment === undefined || enrolment.state === 'open') return false;
  return enrolment.state !== 'failed' || enrolment.fingerprint !== undefined;
}
