/** What somebody may see of a master, on the status page. */
import type {
  Denial,
  Explanation,
  JobProgress,
  KeyInfo,
  MasterStatus,
  UserApi,
} from '../../master/index.ts';
import type { ServedMaster } from '../context.ts';
import type { MinionSince, RateSeries } from './history.ts';
import type { Views } from './views.ts';

/** What is absent is what they may not see. */
export interface Overview {
  readonly user: string;
  readonly status: MasterStatus;
  readonly rates: readonly RateSeries[];
  /** For whom `manage.status` is permitted. */
  readonly minions?: readonly MinionSince[];
  /** For whom `jobs.active` is permitted. */
  readonly jobs?: readonly JobProgress[];
  /** For whom `key.list_all` is permitted. */
  readonly pending?: PendingKeys;
  /** Of tags that they may read. */
  readonly denials: readonly Denial[];
}

/** Keys that wait, and what may be done with them. */
interface PendingKeys {
  readonly keys: readonly KeyInfo[];
  readonly mayAccept: boolean;
  readonly mayReject: boolean;
}

/** Denied signals that are shown. */
const maxDenials = 20;

export async function overviewOf(
  master: ServedMaster,
  views: Views,
  { name, user }: { readonly name: string; readonly user: UserApi },
): Promise<Overview> {
  const [seesMinions, seesJobs, seesKeys] = await Promise.all([
    user.permits('runner', 'manage.status'),
    user.permits('runner', 'jobs.active'),
    user.permits('wheel', 'key.list_all'),
  ]);
  return {
    user: name,
    status: await views.status.get(),
    rates: views.history.rates(),
    ...(seesMinions ? { minions: await views.minions.get() } : {}),
    ...(seesJobs ? { jobs: await master.jobs.underWay() } : {}),
    ...(seesKeys ? { pending: await pendingKeys(views, user) } : {}),
    denials: await readableDenials(master, user),
  };
}

async function pendingKeys(views: Views, user: UserApi): Promise<PendingKeys> {
  const [keys, mayAccept, mayReject] = await Promise.all([
    views.pending.get(),
    user.permits('wheel', 'key.accept'),
    user.permits('wheel', 'key.reject'),
  ]);
  return { keys, mayAccept, mayReject };
}

/** The latest first. */
async function readableDenials(master: ServedMaster, user: UserApi): Promise<Denial[]> {
  const latest = (await master.events.denials()).slice(-maxDenials).reverse();
  const readable = await Promise.all(latest.map(({ tag }) => user.permits('subscribe', tag)));
  return latest.filter((_, index) => readable[index]);
}

/** What the policy in force says of a signal that was denied; `undefined`: it is none, or not theirs. */
export async function explainDenial(
  master: ServedMaster,
  user: UserApi,
  minion: string,
  tag: string,
): Promise<{ readonly denial: Denial; readonly explanation: Explanation } | undefined> {
  const denials = await readableDenials(master, user);
  const denial = denials.find((it) => it.minion === minion && it.tag === tag);
  if (denial === undefined) return undefined;
  const subject = { kind: 'minion', id: denial.minion } as const;
  const request = { subject, action: 'signal', resource: denial.tag } as const;
  return { denial, explanation: await master.acl.explain(request) };
}
