import type { BatchRequest, JobOrigin, PublishRequest } from '../api/index.ts';

type JobField = keyof BatchRequest | keyof JobOrigin;

/**
 * Whether users without full rights may set each field of a job. The policy gate sets or removes
 * the fields that they may not set. A new field of a request causes a compile error until it has an
 * entry here.
 */
const isPermitted: Readonly<Record<JobField, boolean>> = {
  fun: true,
  arg: true,
  kwarg: true,
  // Timeouts and batching affect what the caller receives, but not what minions receive.
  timeoutSeconds: true,
  gatherJobTimeoutSeconds: true,
  patienceSeconds: true,
  subset: true,
  size: true,
  waitSeconds: true,
  failHard: true,
  // The target is evaluated by the gate. The job is then sent to a list of minions.
  tgt: false,
  tgtType: false,
  delimiter: false,
  // The gate accepts only job ids that are bound to the user.
  jid: false,
  // These fields identify the requester, so the gate sets them.
  user: false,
  by: false,
  requestedBy: false,
  leftOut: false,
  // With these fields, minions would do more than run the function.
  ret: false,
  metadata: false,
  startEvent: false,
  judgePart: false,
};

/**
 * Returns a copy of a request that contains only the fields that users without full rights may set.
 */
export function permittedFields<Request extends PublishRequest & JobOrigin>(
  request: Request,
): Omit<Request, 'tgt' | 'tgtType'> {
  const names: Readonly<Partial<Record<string, boolean>>> = isPermitted;
  const fields = Object.entries(request).filter(
    ([name]) => Object.hasOwn(names, name) && names[name],
  );
  return Object.fromEntries(fields) as Omit<Request, 'tgt' | 'tgtType'>; // all others are optional
}
