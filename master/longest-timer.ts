/** Node fires longer timers at once. */
export const longestTimerMs = 2_147_483_647;
