/**
 * Enrolments of instances that ask for their user-data themselves, or that Nova asks for: each has
 * one. The answer is the same until its ticket is used, and there is none from then on.
 */

import Type from 'typebox';
import { BridgeError, type Enrolment, type EnrolmentModule, type EnrolRequest } from '#heat-bridge';
import type { SharedArea } from '#master';
import { KeyedMutex } from '#runtime';
import { defineRow } from '#store';

/** An instance, and the minion that it is to become. */
export interface InstanceRequest
  extends Pick<EnrolRequest, 'agent' | 'id' | 'lifetimeSeconds' | 'masters' | 'project'> {
  readonly instance: string;
}

/** User-data with a ticket, or why there is none: for the operator, not for whoever asked. */
export type InstanceUserData =
  | { readonly userData: string }
  | { readonly refusal: string; readonly code?: string };

/** Numbers of the enrolments of instances, for ever: none of them is enrolled twice. */
const prefix = ['guests', 'vendordata'];

/** Rows `guests/vendordata/<instance>`. */
const instanceRow = defineRow({
  name: 'enrolment of an instance',
  schema: Type.Object({ number: Type.String() }),
  unversioned: (bytes) => ({ number: Buffer.from(bytes).toString('utf8') }),
});

/** Written where another member of a cluster may have answered. */
const askedKey = ['guests', 'vendordata-asked'];
const noValue = new Uint8Array(0);

export interface InstanceEnrolmentDeps {
  readonly state: Pick<SharedArea, 'cluster' | 'get' | 'write'>;
  readonly enroll: Pick<EnrolmentModule, 'api' | 'enrolments' | 'reissue'>;
}

/** The enrolment that was made for an instance; `undefined` in it: it is over for long. */
interface KnownEnrolment {
  readonly enrolment: Enrolment | undefined;
}

/** Begins them, each once. */
export class InstanceEnrolments {
  readonly #deps: InstanceEnrolmentDeps;
  readonly #byInstance = new KeyedMutex();
  readonly #byId = new KeyedMutex();

  constructor(deps: InstanceEnrolmentDeps) {
    this.#deps = deps;
  }

  /** Whether an instance can have no user-data any more, whatever it asks for. */
  async isOver(instance: string): Promise<boolean> {
    const known = await this.#knownOf(instance);
    return known !== undefined && (known.enrolment === undefined || isUsed(known.enrolment));
  }

  /** The user-data of an instance. */
  async userDataFor(request: InstanceRequest): Promise<InstanceUserData> {
    // One after the other: the first begins the enrolment.
    return this.#byInstance.run(request.instance, () => {
      // Of two instances that ask for one id at once, the second would take it from the first.
      return this.#byId.run(request.id, () => this.#userDataFor(request));
    });
  }

  async #userDataFor(request: InstanceRequest): Promise<InstanceUserData> {
    const { enroll, state } = this.#deps;
    const { id, instance, project } = request;
    // Once this is applied, what another member has answered before is known here.
    if (state.cluster !== undefined)
      await state.write([{ op: 'put', key: askedKey, value: noValue }]);
    const known = await this.#knownOf(instance);
    const isAnother = known !== undefined && known.enrolment?.project !== project;
    if (isAnother) return { refusal: 'its enrolment is over, or is of another project' };
    if (isUsed(known?.enrolment)) return { refusal: 'it has had its enrolment' };
    const holder = enroll.enrolments.liveOf(id);
    // An unused ticket of the id would give way to this one.
    if (holder !== undefined && holder.instance !== instance) {
      return { refusal: `the id ${id} is enrolled for another machine` };
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

  async #knownOf(instance: string): Promise<KnownEnrolment | undefined> {
    const { enroll, state } = this.#deps;
    const row = await state.get([...prefix, instance]);
    if (row !== undefined) {
      return { enrolment: enroll.enrolments.get(instanceRow.decode(row).number) };
    }
    // Somebody enrols it otherwise.
    const [other] = enroll.enrolments.liveOfInstance(instance);
    return other && { enrolment: { ...other, state: 'accepted' } };
  }
}

/** One that nobody used in its time may be followed by another one. */
function isUsed(enrolment: Enrolment | undefined): boolean {
  if (enrolment === undefined || enrolment.state === 'open') return false;
  return enrolment.state !== 'failed' || enrolment.fingerprint !== undefined;
}
