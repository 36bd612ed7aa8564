import type { BatchRequest, JobOrigin, PublishRequest } from '../api/index.ts';

type JobField = keyof BatchRequest | keyof JobOrigin;

/**
 * Fields of a job that users without full rights may set. The gate sets the others itself or omits
 * them. A new field of a request is a compile error until it has an entry here.
 */
const isPermitted: Readonly<Record<JobField, boolean>> = {
  fun: true,
  arg: true,
  kwarg: true,
  // Timeouts and batching change what the caller sees, but not what minions receive.
  timeoutSeconds: true,
  gatherJobTimeoutSeconds: true,
  patienceSeconds: true,
  subset: true,
  size: true,
  waitSeconds: true,
  failHard: true,
  // Evaluated first. The job is sent to the list of minions that the target matches.
  tgt: false,
  tgtType: false,
  delimiter: false,
  // Only ids bound to the user are accepted.
  jid: false,
  // Identify the requester.
  user: false,
  by: false,
  requestedBy: false,
  leftOut: false,
  // Make minions do more than run the function.
  ret: false,
  metadata: false,
  startEvent: false,
};

/** Returns the fields of a job that users without full rights may set. */
export function permittedFields<Request extends PublishRequest & JobOrigin>(
  request: Request,
): Omit<Request, 'tgt' | 'tgtType'> {
  const names: Readonly<Partial<Record<string, boolean>>> = isPermitted;
  const fields = Object.entries(request).filter(
    ([name]) => Object.hasOwn(names, name) && names[name],
  );
  return Object.fromEntries(fields) as Omit<Request, 'tgt' | 'tgtType'>; // all others are optional
}
