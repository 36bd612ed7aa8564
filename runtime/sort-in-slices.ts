import { compareTexts } from './compare-texts.ts';
import type { WorkBudget } from './work-budget.ts';

/**
 * Number of items that the engine sorts in one step. A longer list is split into parts of this
 * size, which are sorted and then merged.
 */
const itemsOfPart = 1_000;
/** Estimated work for sorting one item of a part, in steps of a {@link WorkBudget}. */
const stepsOfSorting = 50;
/** Estimated work for merging one item, in steps of a {@link WorkBudget}. */
const stepsOfMerging = 10;

/**
 * Sorts items by a text, in the order of UTF-16 code units, like `Array.prototype.sort`. Items with
 * equal texts keep their order.
 * @param textOf - returns the text of an item
 * @param budget - work budget of the request. Sorting counts towards it, and lets other work run
 * after each slice
 */
export async function sortInSlices<Item extends string | object>(
  items: readonly Item[],
  textOf: (item: Item) => string,
  budget: WorkBudget,
): Promise<Item[]> {
  let parts: Item[][] = [];
  for (let from = 0; from < items.length; from += itemsOfPart) {
    const part = items.slice(from, from + itemsOfPart);
    parts.push(part.sort((a, b) => compareTexts(textOf(a), textOf(b))));
    await budget.giveWayAfter(part.length * stepsOfSorting);
  }
  while (parts.length > 1) {
    const longer: Item[][] = [];
    for (let at = 0; at < parts.length; at += 2) {
      longer.push(await merge(parts[at] ?? [], parts[at + 1] ?? [], textOf, budget));
    }
    parts = longer;
  }
  return parts[0] ?? [];
}

/** Merges two sorted lists. */
async function merge<Item extends string | object>(
  one: readonly Item[],
  other: readonly Item[],
  textOf: (item: Item) => string,
  budget: WorkBudget,
): Promise<Item[]> {
  const merged: Item[] = [];
  let at = 0;
  for (const item of other) {
    const text = textOf(item);
    for (let next = one[at]; next !== undefined && textOf(next) <= text; next = one[at]) {
      merged.push(next);
      at += 1;
      if (merged.length % itemsOfPart === 0)
        await budget.giveWayAfter(itemsOfPart * stepsOfMerging);
    }
    merged.push(item);
    if (merged.length % itemsOfPart === 0) await budget.giveWayAfter(itemsOfPart * stepsOfMerging);
  }
  for (; at < one.length; at += itemsOfPart) {
    const rest = one.slice(at, at + itemsOfPart);
    merged.push(...rest);
    await budget.giveWayAfter(rest.length);
  }
  return merged;
}
