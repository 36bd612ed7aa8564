import type { BatchRequest, JobOrigin, PublishRequest } from '../api/index.ts';

type JobField = keyof BatchRequest | keyof JobOrigin;

/**
 * Fields of a job that a user may set who may not do everything. The gate sets the others itself or
 * leaves them out. A new field of a request is a compile error until it has a row.
 */
const isPermitted: Readonly<Record<JobField, boolean>> = {
  fun: true,
  arg: true,
  kwarg: true,
  // Waiting and spreading change what the caller sees, and send nothing else to a minion.
  timeoutSeconds: true,
  gatherJobTimeoutSeconds: true,
  patienceSeconds: true,
  subset: true,
  size: true,
  waitSeconds: true,
  failHard: true,
  // Evaluated first; the job is for the list of minions that it means.
  tgt: false,
  tgtType: false,
  delimiter: false,
  // Only a job id of the user's own.
  jid: false,
  // Says who asks.
  user: false,
  by: false,
  requestedBy: false,
  leftOut: false,
  // Have minions do more than the function.
  ret: false,
  metadata: false,
  startEvent: false,
};

/** Returns the fields that a user may set who may not do everything. */
export function permittedFields<Request extends PublishRequest & JobOrigin>(
  request: Request,
): Omit<Request, 'tgt' | 'tgtType'> {
  const names: Readonly<Partial<Record<string, boolean>>> = isPermitted;
  const fields = Object.entries(request).filter(
    ([name]) => Object.hasOwn(names, name) && names[name],
  );
  return Object.fromEntries(fields) as Omit<Request, 'tgt' | 'tgtType'>; // all others are optional
}
