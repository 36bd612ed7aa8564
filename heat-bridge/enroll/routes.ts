/** What machines ask over HTTP; the ticket is their only credential. */
import type { FastifyInstance } from 'fastify';
import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { AuthenticationError, TokenBuckets } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { described } from '../http/operation.ts';
import type { Claims } from './claims.ts';
import type { Enrolment } from './enrolment.ts';

/** Refused claims and reports of one address; more are refused unread. */
const refusals = { perSecond: 1, burst: 60 };
/** Bytes of a body: a ticket and some words. */
const bodyLimit = 8192;

const ticket = {
  ticket: Type.String({ maxLength: 2048 }),
  id: Type.String({ minLength: 1, maxLength: 255 }),
  instance: Type.Optional(Type.String({ maxLength: 255 })),
};
const strict = { additionalProperties: false };
const Claim = Type.Object({ ...ticket, fingerprint: Type.String({ maxLength: 128 }) }, strict);
const claimForm = bodyOf(Claim);
const Failure = Type.Object({ ...ticket, reason: Type.String({ maxLength: 4096 }) }, strict);
const failureForm = bodyOf(Failure);

/** The ticket is in the body. */
const access = 'credentials';
const claimOperation = described({
  summary: 'A machine claims for its key, by its ticket',
  access,
  body: Claim,
  answer: Type.Object({ id: Type.String(), state: Type.String() }),
});
const failureOperation = described({
  summary: 'A machine says, by its ticket, why it cannot be made a minion',
  access,
  body: Failure,
  answer: Type.Object({}),
});

/** `POST enroll/claim` and `POST enroll/failure`. */
export function addEnrollRoutes(app: FastifyInstance, claims: Claims): void {
  const refused = new TokenBuckets(refusals);
  const metered = async <T>(address: string, work: () => Promise<T>): Promise<T> => {
    if (refused.take(address, 0) > 0) {
      const text = 'too many tickets from this address were refused; try again later';
      // protection: metered-claims
      throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
    }
    try {
      return await work();
    } catch (error) {
      if (error instanceof BridgeError) refused.take(address);
      throw error;
    }
  };
  app.post('/enroll/claim', { bodyLimit, config: claimOperation }, async ({ body, ip }) => {
    const claim = async (): Promise<Enrolment> => claims.claim({ ...claimForm(body), address: ip });
    const { id, state } = await metered(ip, claim);
    return { id, state };
  });
  app.post('/enroll/failure', { bodyLimit, config: failureOperation }, async ({ body, ip }) => {
    await metered(ip, async () => claims.report({ ...failureForm(body), address: ip }));
    return {};
  });
}

/** @throws BridgeError ERR_ENROLL_ARGS from the function given, without a value */
export function bodyOf<S extends TSchema>(schema: S): (body: unknown) => Static<S> {
  const check = Compile(schema);
  return (body) => {
    const [first] = check.Errors(body);
    if (first === undefined) return check.Parse(body);
    const name = first.instancePath.slice(1) || 'the body';
    throw new BridgeError('ERR_ENROLL_ARGS', `${name}: ${first.message}`);
  };
}
