"""What this distribution adds to crowdblend; each part is loaded when it is asked for."""

from crowdblend.accounting.extensions import ExtensionKind

COIN_FLIP_COUNT = ExtensionKind(
    price_module="acme_coins.prices",
    description_module="acme_coins.description",
    release_module="acme_coins.release",
    records=("acme-coins:coin-flip-count/1",),
)
